/**
 * Reservations as a mutex with fencing tokens: one holder at a time, tokens only grow, only the holder's calls take effect.
 *
 * Owns the model; the search is `linearizability.ts`. A lease ends by itself, so a reservation is also allowed once the
 * holder's lease is over. The model takes its earliest possible end, so that a slow answer is no accusation.
 */

import { type Call, isCall, type Operation } from '../history.ts'
import { linearize, type Model, type Timed } from './linearizability.ts'
import { byKey, type Violation } from './violation.ts'

type State = {
  readonly largest: number
  readonly holder: number
  readonly untilMs: number
  readonly completedBy: number
}

type Op = Timed & { readonly call: Call }

const MODEL: Model<State, Op> = {
  initial: { largest: 0, holder: 0, untilMs: 0, completedBy: 0 },
  step: (state, op) => {
    const { call } = op
    const token = call.token ?? 0
    const untilMs = call.startMs + (call.type === 'ok' ? call.expiresInMs : 0)
    switch (call.f) {
      case 'reserve': {
        if (call.type === 'ok' && call.status !== 201) return state.completedBy > 0 ? state : undefined
        const free = state.holder === 0 || state.untilMs <= op.endMs
        // A session that reserves again gets what it holds.
        if (token === state.holder) return { ...state, untilMs }
        return free && state.completedBy === 0 && token > state.largest
          ? { ...state, largest: token, holder: token, untilMs }
          : undefined
      }
      case 'extend':
        return state.holder === token && state.completedBy === 0 ? { ...state, untilMs } : undefined
      case 'release':
        if (state.completedBy > 0) return undefined
        if (state.holder === token) return { ...state, holder: 0 }
        // A repeated release, without a claim in between.
        return state.holder === 0 && state.largest === token ? state : undefined
      case 'complete':
        if (state.completedBy === token) return state
        return state.holder === token && state.completedBy === 0
          ? { ...state, completedBy: token }
          : undefined
    }
  },
  nameOf: ({ largest, holder, untilMs, completedBy }) => `${largest} ${holder} ${untilMs} ${completedBy}`,
}

export function checkFencedMutex(operations: readonly Operation[]): readonly Violation[] {
  const calls = operations.filter(isCall)
  return [...byKey(calls, ({ key }) => key)].flatMap(([key, ofKey]): Violation[] => {
    const verdict = linearize(ofKey.flatMap(asOp), MODEL)
    if (verdict === 'linearizable') return []
    const checker = verdict === 'violated' ? 'fenced-mutex' : 'fenced-mutex-undecided'
    return [{ checker, key, detail: ofKey.map(describe).join('; ') }]
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
