/**
 * From the results of `npm test`, the two numbers of its last line, and for each failed test the command that runs it
 * alone. An incomplete check (no test was run, one was skipped, an error outside of any test) is a failure, with a
 * sentence.
 */

import { relative } from 'node:path'

/** The fields we read of the report of Vitest's reporter `json`. */
export type VitestReport = {
  readonly numTotalTests: number
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly assertionResults: readonly VitestResult[]
  }[]
}

export type VitestResult = {
  readonly status: string
  readonly ancestorTitles: readonly string[]
  readonly title: string
  readonly failureMessages: readonly string[]
}

export type Verdict = {
  readonly passed: number
  readonly failed: number
  readonly remarks: readonly string[]
}

/**
 * @param report undefined where Vitest wrote none
 * @param root of the repository: files are named from here
 * @param selected the caller named files or tests: then it is no fault that others are not run
 */
export function verdictOnTests(
  report: VitestReport | undefined,
  exitCode: number | null,
  selected: boolean,
  root: string,
): Verdict {
  if (report === undefined)
    return { passed: 0, failed: 1, remarks: [`vitest ended with ${exitCode} and without a report`] }
  const remarks: string[] = []
  let failed = report.numFailedTests
  for (const { name, status, assertionResults } of report.testResults) {
    const file = relative(root, name)
    // A file that could not be loaded has failed without a single test.
    if (status === 'failed' && assertionResults.length === 0) {
      failed += 1
      remarks.push(`${file} could not be run`, `  again: ${commandFor(file)}`)
    }
    // Once more at the very end: often only the end of a long log is kept.
    for (const test of assertionResults)
      if (test.status === 'failed') {
        const title = titleOf(test)
        remarks.push(`${file} > ${title}: ${firstLine(test)}`, `  again: ${commandFor(file, title)}`)
      }
  }
  if (report.numPassedTests + failed === 0) {
    failed += 1
    remarks.push('no test was run')
  }
  const skipped = report.numPendingTests + report.numTodoTests
  if (skipped > 0 && !selected) {
    failed += skipped
    remarks.push(`${skipped} skipped: a test that does not run proves nothing, so it counts as failed`)
  }
  if (exitCode !== 0 && failed === 0) {
    failed += 1
    remarks.push(
      `vitest ended with ${exitCode} although no test failed: an error outside of the tests, see above`,
    )
  }
  return { passed: report.numPassedTests, failed, remarks }
}

/** As Vitest joins the titles before it compares them with `-t`. */
function titleOf({ ancestorTitles, title }: VitestResult): string {
  return [...ancestorTitles, title].join(' > ')
}

/** For a POSIX shell. `-t` is a regular expression matched anywhere in the titles: this one matches one test. */
export function commandFor(file: string, title?: string): string {
  const pattern = title === undefined ? [] : ['-t', `^${title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')}$`]
  return ['npm', 'test', '--', file, ...pattern].map(shellQuoted).join(' ')
}

function shellQuoted(word: string): string {
  return /^[\w./@:=,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

function firstLine({ failureMessages: [message = 'without a message'] }: VitestResult): string {
  return message.split('\n', 1)[0] ?? message
}

export function sum(verdicts: readonly Verdict[]): Verdict {
  return {
    passed: verdicts.reduce((total, one) => total + one.passed, 0),
    failed: verdicts.reduce((total, one) => total + one.failed, 0),
    remarks: verdicts.flatMap((one) => one.remarks),
  }
}
