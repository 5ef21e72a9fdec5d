/** The headers of an answer that an operator types, one a line. */

/** A text is what is wrong with them. */
export function headersIn(text: string): Readonly<Record<string, string>> | string {
  const headers = new Map<string, string>()
  for (const line of text.split('\n').map((one) => one.trim())) {
    if (line === '') continue
    const colon = line.indexOf(':')
    if (!/^[^\s:]+:/.test(line)) return `A header is NAME: VALUE, and this line is not: ${line}`
    const name = line.slice(0, colon).toLowerCase()
    // Of two lines one would be lost without a word.
    if (headers.has(name)) return `${name} is given twice; put its values into one line.`
    headers.set(name, line.slice(colon + 1).trim())
  }
  return Object.fromEntries(headers)
}
