/** Names and keys that applications give: an empty one is refused. */
import { NonRetryableError } from './errors.ts'

/** An empty key is mostly a field that was not there, and would make one operation of all that lack it. */
export function requireName(what: string, name: unknown): void {
  if (typeof name === 'string' && name.trim() !== '') return
  const given = name === undefined ? 'undefined' : JSON.stringify(name)
  throw new NonRetryableError(`${what} is ${given}; a text that is not empty is expected`)
}
