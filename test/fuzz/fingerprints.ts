/**
 * Generated pairs of payloads: equal fingerprints only for equal meaning, unequal ones only for unequal, judged by a
 * reader of JSON independent of ours (`support/exact-json.ts`). What a reader with doubles would lose is compared byte
 * for byte.
 */
import fc from 'fast-check'
import { pairs } from '../support/arbitrary-json.ts'
import { meaningOf } from '../support/exact-json.ts'
import { hashOf, JSON_HEAD } from '../support/requests.ts'

export type FingerprintReport = {
  readonly pairs: number
  /** Of them, those that had to have one fingerprint. */
  readonly same: number
  readonly lossy: number
}

/** @throws with the smallest pair that was found and the seed, where a fingerprint was wrong */
export async function fuzzFingerprints(of: {
  readonly pairs: number
  readonly seed?: number
}): Promise<FingerprintReport> {
  let same = 0
  let lossy = 0
  const property = fc.asyncProperty(pairs, async ([a, b]) => {
    const [first, second] = [meaningOf(a), meaningOf(b)]
    const exact = first.lossless && second.lossless
    const expected = exact
      ? first.text === second.text
      : Buffer.from(a, 'utf8').equals(Buffer.from(b, 'utf8'))
    if (expected) same += 1
    if (!exact) lossy += 1
    const [one, other] = [await hashOf(JSON_HEAD, a), await hashOf(JSON_HEAD, b)]
    if ((one === other) !== expected)
      throw new Error(`${a} and ${b} have ${one === other ? 'one fingerprint' : 'two fingerprints'}`)
  })
  await fc.assert(property, { numRuns: of.pairs, ...(of.seed === undefined ? {} : { seed: of.seed }) })
  return { pairs: of.pairs, same, lossy }
}
