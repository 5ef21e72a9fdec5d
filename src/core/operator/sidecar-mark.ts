/**
 * The mark of a sidecar: what the owners of its claims begin with, so that an operator who looks at a record learns which one
 * holds it.
 *
 * The other 80 bits of an owner are random, and a claim has a token besides: two sidecars of one name still never take each
 * other's claims for their own. The owner of a reservation begins with the tag of its session, because any sidecar serves it.
 */

import { sha256Hex } from '../formats/framing.ts'
import type { Owner } from '../record/record.ts'

/** Of 16. Among a thousand sidecars two have the same mark once in half a billion times. */
const MARK_BYTES = 6

/** @param name of the sidecar, as its log lines carry it */
export function sidecarMarkOf(name: string): string {
  return sha256Hex(Buffer.from(`fencepost-sidecar/1\0${name}`)).slice(0, 2 * MARK_BYTES)
}

/** The mark of the sidecar that claimed, if it was one. */
export function sidecarMarkIn(owner: Owner): string {
  return owner.slice(0, 2 * MARK_BYTES)
}
