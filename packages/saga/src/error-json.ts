/**
 * An error as it is kept beside the row that it stopped: its name, message and code, bounded. Never its properties, which
 * may hold what a client library thought worth keeping, headers and secrets included.
 *
 * What PostgreSQL cannot keep is replaced: an error quotes what it met, and one that cannot be noted would come for ever.
 */
import { storable } from './database.ts'

export function errorJson(error: unknown): string {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown }
  const bare = { name, message: errorText(error), code }
  return JSON.stringify(bare, (_, value: unknown) => (typeof value === 'string' ? storable(value) : value))
}

export function errorText(error: unknown): string {
  return storable(String((error as Error)?.message ?? error).slice(0, 2_000))
}

export function errorCode(error: unknown): string {
  return storable(String((error as { code?: unknown })?.code ?? 'error').slice(0, 200))
}
