/**
 * An error as stored beside the row that it stopped: its name, message and code, bounded. Never its properties, where
 * client libraries keep headers and secrets.
 *
 * What PostgreSQL cannot store is replaced: an error quotes its input, and one that cannot be stored would recur for
 * ever.
 */
import { storable } from './database.ts'

export function errorJson(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
  const bare = { name: plain(name), message: errorText(error), code: plain(code) }
  return JSON.stringify(bare, (_, value: unknown) => (typeof value === 'string' ? storable(value) : value))
}

export function errorText(error: unknown): string {
  return storable(textOf((error as Error)?.message ?? error).slice(0, 2_000))
}

export function errorCode(error: unknown): string {
  return storable(textOf((error as { code?: unknown })?.code ?? 'error').slice(0, 200))
}

/** Anything can be thrown, also what has no text: a failure that cannot be written down would recur for ever. */
function textOf(value: unknown): string {
  try {
    return String(value)
  } catch {
    return Object.prototype.toString.call(value)
  }
}

/** What JSON has as it is: no bigint, and no object that may hold itself. */
function plain(value: unknown): unknown {
  return value === undefined || typeof value === 'number' ? value : textOf(value)
}
