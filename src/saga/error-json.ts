/**
 * An error as it is kept beside the row that it stopped: its name, message and code, bounded. Never its properties, which
 * may hold what a client library thought worth keeping, headers and secrets included.
 */

export function errorJson(error: unknown): string {
  const { name, message, code } = (error ?? {}) as { name?: unknown; message?: unknown; code?: unknown }
  return JSON.stringify({ name, message: String(message ?? error).slice(0, 2_000), code })
}
