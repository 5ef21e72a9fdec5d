/**
 * The sidecar must not start like this: the message says what to change.
 */

export class StartRefused extends Error {
  override readonly name = 'StartRefused'

  static because(what: string, cause: unknown): StartRefused {
    const why = cause instanceof Error ? cause.message : String(cause)
    return new StartRefused(`${what}: ${why}`, { cause })
  }
}
