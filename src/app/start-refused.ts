/**
 * The sidecar must not start like this: the message says what to change.
 */

import { errorText } from '../core/fault.ts'

export class StartRefused extends Error {
  override readonly name = 'StartRefused'

  static because(what: string, cause: unknown): StartRefused {
    const why = errorText(cause)
    return new StartRefused(`${what}: ${why}`, { cause })
  }
}
