/**
 * What others chose, on a terminal: clients, nodes, other sidecars. Its control characters would be commands to the terminal, which can hide
 * what is said.
 */

export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}]/gu, '?')
}

/** The same for lines. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n')
}
