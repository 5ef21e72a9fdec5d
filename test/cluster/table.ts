/** The table of a run, as it is printed and kept in the documents. */
import type { Row } from './scenario.ts'

export function tableOf(rows: readonly Row[]): string {
  const head =
    '| scenario | what is done | requests | 503 | failed otherwise | executed | twice | lost | fewest votes | seconds |'
  const lines = rows.map(({ name, what, found, books, seconds, faults }) => {
    const cells =
      books === undefined
        ? ['', '', '', '', '', '', '']
        : [
            books.requests,
            failedBy(books.failed, true),
            failedBy(books.failed, false),
            books.executed,
            books.executedTwice.length,
            books.lost.length,
            books.fewestVotes ?? '',
          ]
    const said = [what, found, ...faults.map((fault) => `**failed:** ${fault}`)].filter((text) => text !== '')
    return `| ${[name, said.join(' '), ...cells, seconds.toFixed(0)].join(' | ').replaceAll('\n', ' ')} |`
  })
  return [head, '|---|---|---|---|---|---|---|---|---|---|', ...lines].join('\n')
}

/** The table of a run of some scenarios, with those of an earlier one in place of what it did not run. Scenarios that are no more go. */
export function mergedTable(earlier: string, rows: readonly Row[], names: readonly string[]): string {
  const [head = '', rule = '', ...own] = tableOf(rows).split('\n')
  const nameOf = (line: string) => /^\| ([\w-]+) \|/.exec(line)?.[1]
  const lines = new Map([...earlier.split('\n'), ...own].map((line) => [nameOf(line), line]))
  return [head, rule, ...names.flatMap((name) => lines.get(name) ?? [])].join('\n')
}

function failedBy(failed: Readonly<Record<string, number>>, by503: boolean): number {
  return Object.entries(failed)
    .filter(([said]) => / 503\b/.test(said) === by503)
    .reduce((sum, [, count]) => sum + count, 0)
}
