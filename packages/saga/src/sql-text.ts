/**
 * Reads SQL text as far as a query builder's way to send it needs: where its parameters are, and whether it answers with
 * rows.
 *
 * Owns what is no SQL inside SQL: literals, quoted names and comments, in which a `$1` is no parameter and a word no verb.
 */

const token = new RegExp(
  [
    String.raw`(?<![\w$])[eE]'(?:[^'\\]|\\[\s\S]|'')*'`,
    `'(?:[^']|'')*'`,
    `"(?:[^"]|"")*"`,
    String.raw`--[^\n]*`,
    String.raw`\/\*[\s\S]*?\*\/`,
    String.raw`(?<![\w$])\$(?<tag>[A-Za-z_]\w*)?\$[\s\S]*?\$\k<tag>\$`,
    String.raw`(?<![\w$])\$(?<parameter>\d+)`,
  ].join('|'),
  'g',
)

/** The text between the parameters, and their numbers in the order of the text: `$2, $1, $2` are three. */
export function parametersOf(text: string): {
  readonly texts: readonly string[]
  readonly numbers: readonly number[]
} {
  const texts: string[] = []
  const numbers: number[] = []
  let from = 0
  for (const { 0: found, index, groups } of text.matchAll(token)) {
    if (groups?.parameter === undefined) continue
    texts.push(text.slice(from, index))
    numbers.push(Number(groups.parameter))
    from = index + found.length
  }
  return { texts: [...texts, text.slice(from)], numbers }
}

/** Whether the statement itself answers with rows, whatever the ones inside it do. */
export function answersWithRows(text: string): boolean {
  let outer = text.replace(token, (found) => (/^(--|\/\*)/.test(found) ? ' ' : "''"))
  for (let before = ''; before !== outer; ) {
    before = outer
    outer = outer.replace(/\((?:[^()]+)\)/g, '()')
  }
  if (/\bRETURNING\b/i.test(outer)) return true
  if (/^\s*WITH\b/i.test(outer)) return !/\)\s*(INSERT|UPDATE|DELETE|MERGE)\b/i.test(outer)
  return /^\s*(\(|(SELECT|SHOW|VALUES|TABLE|EXPLAIN|FETCH)\b)/i.test(outer)
}
