/**
 * The spans of a claim, from the events of the core: `fencepost.acquire → hold → renew → release`.
 *
 * Owns which spans belong to which claim. A span of a claim that another call or trace began links to it. The lease that ran out is
 * not the end of it: its holder may still offer its outcome.
 */

import {
  type Attributes,
  type Link,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api'
import { executedBy, keyHashOf, lockIdOf } from '../core/claims/lease.ts'
import type { DecidedEvent } from '../core/decision.ts'
import type { CoreEvent, Events } from '../core/events.ts'
import { millisecondOf, type Token } from '../core/record/token.ts'
import type { ClaimTrace, Tracing } from '../core/tracing.ts'
import { SAMPLED } from './trace-headers.ts'

type ClaimSpansOptions = { readonly version: string; readonly nodeCount: number; readonly required: number }

type ClaimSpans = Pick<Tracing, 'claimed' | 'resumed'> & { readonly subscriber: Events['publish'] }

/** Claims whose later spans link to them. Beyond it the oldest is forgotten, and its later spans have no link. */
const KNOWN_MAX = 10_000

type Known = {
  readonly span: SpanContext
  readonly token: Token
  readonly atWallMs: number
  readonly attributes: Attributes
  /** Its lease ran out, and its hold is written. What its holder does after that belongs to it, too. */
  over: boolean
}
type OfAClaim = { readonly recordKey: string; readonly token: Token }
type ClaimEnded = Extract<CoreEvent, { kind: 'claim_ended' }>
type Step = Extract<CoreEvent, { kind: 'lease_renewed' | 'lease_released' | 'outcome_offered' }>

export function claimSpans({ version, nodeCount, required }: ClaimSpansOptions): ClaimSpans {
  const tracer = trace.getTracer('fencepost', version)
  const known = knownClaims()

  /** Writes a span that is over: from then until now, below the active span. */
  const write = (name: string, startWallMs: number, attributes: Attributes, links: Link[] = []) => {
    const options = { kind: SpanKind.INTERNAL, startTime: startWallMs, attributes, links }
    const span = tracer.startSpan(name, options)
    if (attributes['error.type'] !== undefined) span.setStatus({ code: SpanStatusCode.ERROR })
    span.end()
    return span.spanContext()
  }
  const acquired = ({ recordKey, token, result, rounds, durationMs, answered }: ClaimEnded) => {
    const claim: Attributes = {
      'fencepost.key_hash': keyHashOf(recordKey),
      'fencepost.quorum.nodes': nodeCount,
      'fencepost.quorum.required': required,
      ...(token === undefined ? {} : { 'fencepost.lock_id': lockIdOf({ key: recordKey, token }) }),
    }
    const span = write('fencepost.acquire', Date.now() - durationMs, {
      ...claim,
      'fencepost.outcome': result,
      'fencepost.attempts': rounds,
      ...(answered === undefined ? {} : { 'fencepost.quorum.reached': answered }),
      ...(result === 'unavailable' || result === 'damaged' ? { 'error.type': result } : {}),
    })
    if (result !== 'granted' || token === undefined) return
    known.remember({ recordKey, token }, { span, atWallMs: Date.now(), attributes: claim })
  }
  const step = (event: Step, name: string, failed: boolean) => {
    const lockId = lockIdOf({ key: event.recordKey, token: event.token })
    const acquire = known.byLockId(lockId)
    if (acquire === undefined && trace.getActiveSpan() === undefined) return
    const attributes = {
      'fencepost.key_hash': keyHashOf(event.recordKey),
      'fencepost.lock_id': lockId,
      'fencepost.outcome': event.result,
      ...(failed ? { 'error.type': event.result } : {}),
    }
    write(
      name,
      Date.now() - event.durationMs,
      attributes,
      acquire === undefined ? [] : [{ context: acquire }],
    )
  }
  const held = (event: OfAClaim, ended: string, attributes: Attributes = {}) => {
    const of = known.find(event)
    if (of === undefined) return
    const written = of.over
    // Only a holder whose lease ran out goes on with its claim.
    if (ended === 'expired' || ended === 'lost') of.over = true
    else known.forget(event)
    if (written) return
    write('fencepost.hold', of.atWallMs, { ...of.attributes, ...attributes, 'fencepost.outcome': ended }, [
      { context: of.span },
    ])
  }

  return {
    claimed: (recordKey) => known.latest(recordKey),
    resumed: (recordKey, token, claim) => {
      if (known.find({ recordKey, token }) !== undefined) return
      known.remember(
        { recordKey, token },
        {
          span: { ...claim, traceFlags: SAMPLED, isRemote: true },
          // The millisecond in a token is that of its claim, by the clock of the sidecar that claimed.
          atWallMs: millisecondOf(token),
          attributes: {
            'fencepost.key_hash': keyHashOf(recordKey),
            'fencepost.lock_id': lockIdOf({ key: recordKey, token }),
          },
        },
      )
    },
    subscriber: (event) => {
      switch (event.kind) {
        case 'claim_ended':
          // Else the sidecar's own claim, or that of a request that is not recorded.
          if (trace.getActiveSpan() !== undefined) acquired(event)
          return
        case 'lease_renewed':
          step(event, 'fencepost.renew', event.result !== 'renewed')
          return
        case 'outcome_offered':
          step(event, 'fencepost.release', event.result !== 'recorded')
          if (event.result === 'recorded') held(event, 'completed')
          return
        case 'lease_released':
          step(event, 'fencepost.release', event.result !== 'released')
          if (event.result === 'released') held(event, 'released')
          return
        case 'lease_ended':
          held(event, event.ended, { 'fencepost.lease.remaining_ms': Math.round(event.remainingMs) })
          return
        case 'decided':
          report(event, known)
          return
      }
    },
  }
}

function report(event: DecidedEvent, known: ReturnType<typeof knownClaims>): void {
  const span = trace.getActiveSpan()
  // That of a tunnel ended when the tunnel began.
  if (span?.isRecording() !== true) return
  span.setAttributes(decisionAttributes(event))
  const holder = executedBy(event)
  const first = holder === undefined ? undefined : known.byLockId(holder)
  if (first !== undefined) span.addLink({ context: first })
}

/** Of a duplicate the lock id of the claim that executed it, as in its log line. */
export function decisionAttributes({
  decision,
  entrypoint,
  lockId,
  keyHash,
  holder,
}: Pick<DecidedEvent, 'decision' | 'entrypoint'> & Partial<DecidedEvent>): Attributes {
  const claim = lockId ?? executedBy({ keyHash, holder })
  return {
    'fencepost.outcome': decision,
    'fencepost.entrypoint': entrypoint,
    ...(claim === undefined ? {} : { 'fencepost.lock_id': claim }),
  }
}

/** The last recorded claim of each record. */
function knownClaims() {
  const claims = new Map<string, Known>()
  /** By lock id; beyond the end of the lease, for its release, and for the duplicates that come later. */
  const spans = new Map<string, SpanContext>()
  return {
    byLockId: (lockId: string): SpanContext | undefined => spans.get(lockId),
    /** That very claim: the record may have been claimed anew since. */
    find: ({ recordKey, token }: OfAClaim): Known | undefined => {
      const of = claims.get(recordKey)
      return of?.token === token ? of : undefined
    },
    latest: (recordKey: string): ClaimTrace | undefined => {
      const of = claims.get(recordKey)
      return of === undefined || of.over ? undefined : { traceId: of.span.traceId, spanId: of.span.spanId }
    },
    remember: ({ recordKey, token }: OfAClaim, of: Omit<Known, 'token' | 'over'>): void => {
      claims.set(recordKey, { ...of, token, over: false })
      if (claims.size > KNOWN_MAX) claims.delete(claims.keys().next().value as string)
      spans.set(lockIdOf({ key: recordKey, token }), of.span)
      if (spans.size > KNOWN_MAX) spans.delete(spans.keys().next().value as string)
    },
    forget: ({ recordKey }: OfAClaim): void => void claims.delete(recordKey),
  }
}
