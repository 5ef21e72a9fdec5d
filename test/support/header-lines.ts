/** Header lines as they stand in a message: `lines('Accept: text/csv', 'X-A: 1')`. */
export function lines(...texts: readonly string[]): [name: string, value: string][] {
  return texts.map((text) => {
    const at = text.indexOf(':')
    return [text.slice(0, at), text.slice(at + 1).trim()]
  })
}
