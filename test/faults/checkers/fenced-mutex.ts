/**
 * Reservations as a mutex with fencing tokens: one holder at a time, tokens only grow, only the holder's calls take effect.
 *
 * Owns the model; the search is `linearizability.ts`. A lease ends by itself, so a reservation is also allowed once the
 * holder's lease is over. The model takes its earliest possible end, so that a slow answer is no accusation. An operator
 * ends a live claim, which leaves a further attempt to the next holder; makes the value free; or completes it by hand.
 */

import { type Call, isCall, type Operation } from '../history.ts'
import { concernsLaterClaims, decisionsOf, describeDecision, type Step, stepsOf } from './decisions.ts'
import { linearize, type Model, type Timed } from './linearizability.ts'
import { byKey, type Violation } from './violation.ts'

type State = {
  readonly largest: number
  /** The last claim that was not given back: one that is given back leaves the claim before it as it was. */
  readonly stands: number
  /** What stands where the last claim is given back. */
  readonly before: number
  readonly holder: number
  readonly untilMs: number
  /** The token of the outcome; {@link BY_HAND} of an operator's. */
  readonly completedBy: number
  /** Of an outcome that was perhaps forgotten by some nodes alone: it comes back where another one shows it. */
  readonly mayReturn: number
  /** A claim was ended by an operator: the next grant is told of it. */
  readonly ended: boolean
  /** Claims up to this token were ended or forgotten. A node that missed it may take their outcome, and a later claimant adopt it. */
  readonly fenced: number
}

type Op =
  | (Timed & { readonly call: Call; readonly step?: undefined })
  | (Step & { readonly call?: undefined })

const BY_HAND = -1
const FREE = {
  stands: 0,
  before: 0,
  holder: 0,
  untilMs: 0,
  completedBy: 0,
  mayReturn: 0,
  ended: false,
  fenced: 0,
} as const

const MODEL: Model<State, Op> = {
  initial: { largest: 0, ...FREE },
  step: (state, op) => {
    if (op.call === undefined) return decided(state, op)
    const { call } = op
    const token = call.token ?? 0
    const untilMs = call.startMs + (call.type === 'ok' ? call.expiresInMs : 0)
    const completedBy = state.completedBy === 0 ? state.mayReturn : state.completedBy
    switch (call.f) {
      case 'reserve': {
        if (call.type === 'ok' && call.status !== 201)
          return completedBy === 0 ? undefined : { ...state, completedBy, mayReturn: 0 }
        const free = state.holder === 0 || state.untilMs <= op.endMs
        // A session that reserves again gets what it holds.
        if (token === state.holder) return { ...state, untilMs }
        if (state.ended && call.type === 'ok' && (call.attempt ?? 2) < 2) return undefined
        return free && state.completedBy === 0 && token > state.largest
          ? { ...state, largest: token, stands: token, before: state.stands, holder: token, untilMs }
          : undefined
      }
      case 'extend':
        return state.holder === token && state.completedBy === 0 ? { ...state, untilMs } : undefined
      case 'release':
        if (state.completedBy !== 0) return undefined
        if (state.holder === token) return { ...state, holder: 0, stands: state.before }
        // A repeated release, without a claim in between.
        return state.holder === 0 && state.largest === token ? state : undefined
      case 'complete':
        if (completedBy === token) return { ...state, completedBy, mayReturn: 0 }
        if (state.completedBy !== 0) return undefined
        return state.holder === token || (op.optional && state.holder === 0 && token <= state.fenced)
          ? { ...state, completedBy: token, mayReturn: 0 }
          : undefined
    }
  },
  nameOf: (state) => Object.values(state).join(' '),
}

function decided(state: State, { what, optional, endMs, decision }: Step): State | undefined {
  const { was, token } = decision
  const isFree = was === 'live' || state.holder === 0 || state.untilMs <= endMs
  const completedBy = state.completedBy === 0 ? state.mayReturn : state.completedBy
  const largest = Math.max(state.largest, token)
  // A claim with a larger token came after what the operator saw, stands, and is no matter of the decision.
  const isLater = state.stands > token && !concernsLaterClaims(decision)
  if (was !== 'completed' && (state.completedBy !== 0 || isLater || !isFree)) return undefined
  if (was === 'completed' && completedBy === 0) return undefined
  const { mayReturn } = state
  const fenced = Math.max(state.fenced, token)
  switch (what) {
    case 'ended':
      // Of a decision that goes on, or is not known to have been made, the next one need not be a further attempt.
      return {
        ...state,
        largest,
        stands: Math.max(state.stands, token),
        holder: 0,
        untilMs: 0,
        ended: state.ended || !optional,
        fenced,
      }
    case 'forgotten':
      if (was !== 'completed') return { largest, ...FREE, mayReturn, fenced }
      return { largest, ...FREE, mayReturn: optional ? completedBy : 0 }
    case 'by-hand':
      return { largest, ...FREE, completedBy: BY_HAND }
  }
}

export function checkFencedMutex(operations: readonly Operation[]): readonly Violation[] {
  const calls = operations.filter(isCall)
  const decisions = byKey(decisionsOf(operations, 'reservation'), ({ key }) => key)
  return [...byKey(calls, ({ key }) => key)].flatMap(([key, ofKey]): Violation[] => {
    const ofOperator = decisions.get(key) ?? []
    const verdict = linearize([...ofKey.flatMap(asOp), ...ofOperator.flatMap(stepsOf)], MODEL)
    if (verdict === 'linearizable') return []
    const checker = verdict === 'violated' ? 'fenced-mutex' : 'fenced-mutex-undecided'
    const said = [...ofKey.map(describe), ...ofOperator.map(describeDecision)]
    return [{ checker, key, detail: said.join('; ') }]
  })
}

/** Refusals say nothing here, except "completed"; an unknown grant only makes later tokens larger. */
function asOp(call: Call): Op[] {
  const { startMs } = call
  if (call.type === 'info' || call.status === 503) {
    return call.f === 'reserve' ? [] : [{ call, startMs, endMs: Number.POSITIVE_INFINITY, optional: true }]
  }
  const took = call.f === 'reserve' ? call.status === 201 : call.status === 200
  const duplicate = call.f === 'reserve' && call.code === 'reservation-duplicate'
  return took || duplicate ? [{ call, startMs, endMs: call.endMs, optional: false }] : []
}

function describe(call: Call): string {
  const answer = call.type === 'ok' ? `${call.status} ${call.code}` : call.reason
  return `${call.f}(${call.token ?? ''}) at sidecar ${call.sidecar} ${call.startMs.toFixed(0)}-${call.endMs.toFixed(0)}: ${answer}`
}
