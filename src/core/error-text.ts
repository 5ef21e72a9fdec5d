/**
 * What went wrong, in the words of whoever threw it: JavaScript throws anything.
 */

export function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
