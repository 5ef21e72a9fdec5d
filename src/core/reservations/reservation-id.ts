/**
 * The id of a reservation: everything that later calls need, signed, so that any sidecar of the cluster serves it.
 *
 * Owns the bytes of an id and its signature. With the secret (`reservation-secret.ts`) any sidecar can read the ids of
 * all others; without it no client can forge one, or change its record key, owner or token. An id proves that its
 * holder was once granted these records, not that it still holds them: the nodes decide that.
 *
 * `r1_` and the base64url of: flags (1 byte), attempt (2), lease in ms (4), retention in ms (6), owner (16), token (8),
 * number of intents (1) and of entities (1), length of the scope (2), the scope, 32 bytes for each intent's hash (and
 * 32 for its fingerprint, with flag 1) and each entity's hash, trace and span of the claim (24, with flag 2), the
 * attempt of each intent (2 each, with flag 4), the mark of the secret (4), HMAC-SHA256 of it all (32).
 *
 * The mark tells an id that was signed with a secret that is gone, or of another cluster, from one that was changed.
 *
 * A flag that a version does not know stands for bytes after those that it knows, and it leaves them out. What earlier versions
 * must not leave out gets the prefix `r2_`, which they refuse.
 */

import { createHmac, timingSafeEqual } from 'node:crypto'
import { ENTITY_MARK, fingerprintOfName } from '../request/identity.ts'
import type { ReservationSecret } from './reservation-secret.ts'
import type { Intent, Reservation } from './reservations.ts'

/** An id of 32 values, 8 entities and three names of 128 bytes, each percent-encoded, is shorter. */
export const RESERVATION_ID_CHARS_MAX = 4_096

const PREFIX = 'r1_'
const SIGNED_AS = 'fencepost-reservation-id/1'
const MAC_BYTES = 32
const MARK_BYTES = 4
const HASH_BYTES = 32
const FIXED_BYTES = 1 + 2 + 4 + 6 + 16 + 8 + 1 + 1 + 2
/** The fingerprints follow from the names, and are not carried. */
const FLAG_FINGERPRINTS = 1
/** The claim is recorded by tracing. */
const FLAG_TRACE = 2
/** Its intents differ in their attempts. */
const FLAG_ATTEMPTS = 4
const ATTEMPT_BYTES = 2
const TRACE_ID_BYTES = 16
const SPAN_ID_BYTES = 8

type VerifiedId =
  | { readonly kind: 'reservation'; readonly reservation: Reservation }
  /** Signed with a secret that is none of these: what it was granted is known no more. */
  | { readonly kind: 'lost' }
  /** Changed, or no id. */
  | { readonly kind: 'foreign' }

export function reservationIdOf(reservation: Reservation, secret: Buffer): string {
  const { intents, entities, owner, token, attempt, attempts = [], leaseMs, retentionMs, trace } = reservation
  const first = intents[0] ?? entities[0]
  if (first === undefined) throw new RangeError('a reservation of nothing has no id')
  const scope = Buffer.from(scopeOf(first.recordKey))
  const withFingerprints = intents.some((one) => one.fingerprint !== fingerprintOfName(one.recordKey))
  const fixed = Buffer.alloc(FIXED_BYTES)
  const flags =
    (withFingerprints ? FLAG_FINGERPRINTS : 0) |
    (trace === undefined ? 0 : FLAG_TRACE) |
    (attempts.length === 0 ? 0 : FLAG_ATTEMPTS)
  let at = fixed.writeUInt8(flags, 0)
  at = fixed.writeUInt16BE(attempt, at)
  at = fixed.writeUInt32BE(leaseMs, at)
  at = fixed.writeUIntBE(retentionMs, at, 6)
  at += fixed.write(owner, at, 16, 'hex')
  at = fixed.writeBigUInt64BE(BigInt(token), at)
  at = fixed.writeUInt8(intents.length, at)
  at = fixed.writeUInt8(entities.length, at)
  fixed.writeUInt16BE(scope.length, at)
  const payload = Buffer.concat([
    fixed,
    scope,
    ...intents.flatMap(({ recordKey, fingerprint }) => [
      hashOf(recordKey),
      ...(withFingerprints ? [Buffer.from(fingerprint, 'hex')] : []),
    ]),
    ...entities.map(({ recordKey }) => hashOf(recordKey)),
    ...(trace === undefined ? [] : [Buffer.from(trace.traceId + trace.spanId, 'hex')]),
    ...attempts.map((one) => Buffer.from([one >> 8, one & 255])),
    markOf(secret),
  ])
  return PREFIX + Buffer.concat([payload, macOf(payload, secret)]).toString('base64url')
}

/** Whether it could be an id: if not, no secret has signed it. */
function hasFormOfReservationId(id: string): boolean {
  return signedBytesOf(id) !== undefined
}

/** @param secrets any of them may have signed */
export function verifyReservationId(id: string, secrets: readonly Buffer[]): VerifiedId {
  const foreign: VerifiedId = { kind: 'foreign' }
  const bytes = signedBytesOf(id)
  if (bytes === undefined) return foreign
  const payload = bytes.subarray(0, -MAC_BYTES)
  const mac = bytes.subarray(-MAC_BYTES)
  if (!secrets.some((secret) => timingSafeEqual(macOf(payload, secret), mac))) {
    const mark = payload.subarray(-MARK_BYTES)
    return secrets.some((secret) => markOf(secret).equals(mark)) ? foreign : { kind: 'lost' }
  }
  return { kind: 'reservation', reservation: reservationFrom(payload) }
}

function signedBytesOf(id: string): Buffer | undefined {
  if (!id.startsWith(PREFIX) || id.length > RESERVATION_ID_CHARS_MAX) return undefined
  const encoded = id.slice(PREFIX.length)
  const bytes = Buffer.from(encoded, 'base64url')
  // Node's decoder is lenient; one id has one spelling.
  if (bytes.length < FIXED_BYTES + MARK_BYTES + MAC_BYTES || bytes.toString('base64url') !== encoded)
    return undefined
  return bytes
}

/** What its caller is told of one that is lost. */
export const WHY_LOST =
  'was signed with a secret that this cluster does not have: its nodes lost what they knew, or another cluster gave it out. Nothing is held under it, and nothing was changed'

/**
 * Why an id is foreign, for its caller. Whether a later version signed it can't be known, because what it signs is not known either.
 */
export function whyForeign(id: string): string {
  const [prefix = ''] = /^r[1-9]\d*_/.exec(id) ?? []
  return prefix === '' || prefix === PREFIX
    ? 'is not one that a sidecar of this cluster has given out'
    : `begins with ${prefix}, and this sidecar reads ids that begin with ${PREFIX}: a sidecar of a later version has given it out, and serves it`
}

/** Only of a payload that we signed ourselves: it has the form that {@link reservationIdOf} gave it. */
function reservationFrom(payload: Buffer): Reservation {
  const withFingerprints = (payload.readUInt8(0) & FLAG_FINGERPRINTS) !== 0
  const intentCount = payload.readUInt8(37)
  const entityCount = payload.readUInt8(38)
  const scopeEnd = FIXED_BYTES + payload.readUInt16BE(39)
  const scope = payload.toString('utf8', FIXED_BYTES, scopeEnd)
  let at = scopeEnd
  const next = (bytes = HASH_BYTES): string => {
    at += bytes
    return payload.toString('hex', at - bytes, at)
  }
  const intents: Intent[] = []
  for (let index = 0; index < intentCount; index += 1) {
    const recordKey = `${scope}:${next()}`
    intents.push({ recordKey, fingerprint: withFingerprints ? next() : fingerprintOfName(recordKey) })
  }
  const entities: Intent[] = []
  for (let index = 0; index < entityCount; index += 1) {
    const recordKey = `${scope}${ENTITY_MARK}:${next()}`
    entities.push({ recordKey, fingerprint: fingerprintOfName(recordKey) })
  }
  const traced = (payload.readUInt8(0) & FLAG_TRACE) !== 0
  const trace = traced ? { trace: { traceId: next(TRACE_ID_BYTES), spanId: next(SPAN_ID_BYTES) } } : {}
  const counted = (payload.readUInt8(0) & FLAG_ATTEMPTS) !== 0
  return {
    intents,
    entities,
    ...trace,
    ...(counted ? { attempts: intents.map(() => Number.parseInt(next(ATTEMPT_BYTES), 16)) } : {}),
    attempt: payload.readUInt16BE(1),
    leaseMs: payload.readUInt32BE(3),
    retentionMs: payload.readUIntBE(7, 6),
    owner: payload.toString('hex', 13, 29),
    token: Number(payload.readBigUInt64BE(29)),
  }
}

/** `dedup:{tenant}:{env}:{version}`, of the record of an intent or of an entity. */
function scopeOf(recordKey: string): string {
  return recordKey.split(':').slice(0, 4).join(':')
}

function hashOf(recordKey: string): Buffer {
  return Buffer.from(recordKey.slice(-2 * HASH_BYTES), 'hex')
}

/** Says which secret it was, and nothing about it. */
function markOf(secret: Buffer): Buffer {
  return createHmac('sha256', secret).update(`${SIGNED_AS}/mark`).digest().subarray(0, MARK_BYTES)
}

function macOf(payload: Buffer, secret: Buffer): Buffer {
  return createHmac('sha256', secret).update(SIGNED_AS).update('\0').update(payload).digest()
}

/**
 * Opening an id of a reservation with the secret of the cluster, which may have changed, or not be known yet.
 *
 * An id that no sidecar has given out is told from one that can't be checked now.
 */
export type OpenedId =
  /** `secret` signs the id anew. */
  | { readonly kind: 'reservation'; readonly reservation: Reservation; readonly secret: Buffer }
  | { readonly kind: 'foreign' }
  /** A sidecar gave it out whose secret is gone, as with the nodes of before. */
  | { readonly kind: 'lost' }
  /** Too few nodes answered to agree on the secret, or to look whether it has changed. */
  | { readonly kind: 'unavailable' }

/** How long an id waits for the nodes to say with which secret it was signed. */
const WITHIN_MS = 1_000

export async function openReservationId(id: string, secret: ReservationSecret): Promise<OpenedId> {
  if (!hasFormOfReservationId(id)) return { kind: 'foreign' }
  const known = openedWith(await secret.current(WITHIN_MS), id)
  if (known.kind === 'reservation' || known.kind === 'unavailable') return known
  return openedWith((await secret.refreshed(WITHIN_MS)) ?? [], id)
}

function openedWith(secrets: readonly Buffer[], id: string): OpenedId {
  const [secret] = secrets
  if (secret === undefined) return { kind: 'unavailable' }
  const verified = verifyReservationId(id, secrets)
  return verified.kind === 'reservation' ? { ...verified, secret } : verified
}
