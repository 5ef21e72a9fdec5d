/**
 * The keys of one issuer: from a file, from an address, or from the file until the address has answered.
 *
 *   no keys → keys (file read, or fetched) → keys (fetched again, in the background) → no keys (too old)
 *
 * Owns when keys are fetched. The sidecar starts without them (offline start). An issuer that does not answer for a while stops
 * nobody whose key is known. A key that is not known is looked for at once, because the issuer may have rotated, but no more often
 * than an issuer can bear: a forged token names whatever key it likes.
 */

import { createLocalJWKSet, type LocalJWKSet } from 'jose'
import type { Clock } from '../core/clock.ts'
import { errorText } from '../core/fault.ts'
import { type JsonWebKeys, parseJsonWebKeys } from '../core/formats/json-web-keys.ts'
import { within } from '../core/retry.ts'

/** Fetched keys are used this long before they are fetched again. Bounds for how long a withdrawn key is accepted. */
export const KEYS_FRESH_MS = 5 * 60_000
/** While the issuer does not answer, the last keys are used at most this long. */
export const KEYS_STALE_MAX_MS = 24 * 60 * 60_000
/** Between two fetches, successful or not. */
export const KEYS_FETCH_EVERY_MS = 10_000
/** How long a request waits for a fetch. */
const FETCH_WITHIN_MS = 3_000

type KeySetOptions = {
  readonly url?: string
  /** From the file. */
  readonly initial?: JsonWebKeys
  readonly clock: Clock
  /** The body of a successful answer of the address. */
  readonly fetchKeys: (url: string) => Promise<string>
  /** The first failure after a success, or the first success after a failure. */
  readonly onChange: (failure: string | undefined) => void
}

export type KeySet = {
  /** The keys in force; undefined: none are. */
  current(): Promise<LocalJWKSet | undefined>
  /**
   * After a token named a key that is none of these. @returns other keys to try; `none`: it is not one of the issuer's, as far
   * as the issuer said just now; `unknown`: the issuer could not be reached.
   */
  after(tried: LocalJWKSet): Promise<LocalJWKSet | 'none' | 'unknown'>
  /** The file has other keys. */
  replace(keys: JsonWebKeys): void
}

export function createKeySet(options: KeySetOptions): KeySet {
  const { url, clock, initial } = options
  let keys = initial === undefined ? undefined : createLocalJWKSet(initial as never)
  let fromFile = true
  let fetchedMonoMs = Number.NEGATIVE_INFINITY
  let triedMonoMs = Number.NEGATIVE_INFINITY
  let failure: string | undefined
  let underWay: Promise<void> | undefined

  async function fetchNow(address: string): Promise<void> {
    triedMonoMs = clock.monoMs()
    let reason: string | undefined
    try {
      const sentence = `no answer within ${FETCH_WITHIN_MS} ms`
      const text = await within(clock, FETCH_WITHIN_MS, options.fetchKeys(address), sentence)
      const parsed = parseJsonWebKeys(text)
      if (parsed.kind === 'keys') {
        keys = createLocalJWKSet(parsed.keys as never)
        fromFile = false
        fetchedMonoMs = clock.monoMs()
      } else reason = `its answer ${parsed.reason}`
    } catch (cause) {
      reason = errorText(cause)
    }
    if ((reason === undefined) !== (failure === undefined)) options.onChange(reason)
    failure = reason
  }

  /** One fetch at a time, and none too soon after the last. */
  function refresh(): Promise<void> {
    if (url === undefined) return Promise.resolve()
    if (underWay !== undefined) return underWay
    if (clock.monoMs() - triedMonoMs < KEYS_FETCH_EVERY_MS) return Promise.resolve()
    underWay = fetchNow(url).finally(() => {
      underWay = undefined
    })
    return underWay
  }

  const inForce = () => (fromFile || clock.monoMs() - fetchedMonoMs < KEYS_STALE_MAX_MS ? keys : undefined)

  return {
    current: async () => {
      if (inForce() === undefined) await refresh()
      else if (clock.monoMs() - fetchedMonoMs >= KEYS_FRESH_MS) void refresh()
      return inForce()
    },
    after: async (tried) => {
      await refresh()
      const now = inForce()
      if (now !== undefined && now !== tried) return now
      return url === undefined || failure === undefined ? 'none' : 'unknown'
    },
    replace: (others) => {
      if (fromFile) keys = createLocalJWKSet(others as never)
    },
  }
}

/** Some hundred keys with their certificates. */
const BYTES_MAX = 512 * 1024
const GIVE_UP_AFTER_MS = 5_000

/** In a bounded time and size. @throws with a sentence without the address: whoever logs it names that beside it */
export async function fetchKeys(url: string): Promise<string> {
  const response = await fetch(url, {
    headers: { accept: 'application/jwk-set+json, application/json' },
    // A redirect is an answer like any other that is not 200, and told as one.
    redirect: 'manual',
    signal: AbortSignal.timeout(GIVE_UP_AFTER_MS),
  }).catch((cause: Error) => {
    throw new Error(
      `the address could not be reached (${(cause.cause as NodeJS.ErrnoException)?.code ?? cause.name})`,
    )
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`the address answered ${response.status}, and 200 is expected`)
  }
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > BYTES_MAX) throw new Error(`the answer is larger than ${BYTES_MAX} bytes, which is the limit`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
