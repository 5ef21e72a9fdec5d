/**
 * What an operator of a fault run says to the operator API, and how it reads the answers.
 *
 * Owns the words alone; `clients.ts` sends them, `load.ts` decides which.
 */

import type { Decision } from './history.ts'

/** A record about which something can be decided, as the operator saw it. */
export type Sight = {
  readonly record: string
  readonly state: Decision['was']
  readonly token: number
}

const DECIDABLE: ReadonlySet<unknown> = new Set(['live', 'lapsed', 'completed'])

/** @param answer with `records`, of which the first is meant */
export function sightOf(answer: Readonly<Record<string, unknown>>): Sight | undefined {
  const [one] = Array.isArray(answer.records)
    ? (answer.records as (Record<string, unknown> | undefined)[])
    : []
  const { record, state, fencing_token: token } = one ?? {}
  if (typeof record !== 'string' || typeof token !== 'number' || !DECIDABLE.has(state)) return undefined
  return { record, state: state as Decision['was'], token }
}

/** The body of a decision, which says out what it breaks; and its outcome by hand, as duplicates are to get it. */
export function wordsOf(
  f: Decision['f'],
  of: Decision['of'],
  op: number,
  { state, token }: Sight,
): { readonly body: object; readonly result?: string } {
  const words = {
    reason: 'the plan of a fault run',
    fencing_token: token,
    ...(state === 'lapsed' ? {} : { even_though: state }),
  }
  if (f !== 'operator-complete') return { body: words }
  if (of === 'reservation') return { body: { ...words, result: `by-hand-${op}` }, result: `by-hand-${op}` }
  const result = `{"by_hand":${op}}`
  const answer = { status: 201, headers: { 'content-type': 'application/json' }, body: result }
  return { body: { ...words, answer }, result }
}

/** Only what the sidecar says plainly is believed: everything else may have taken effect. */
export function effectOf(
  status: number,
  answer: Readonly<Record<string, unknown>>,
): 'done' | 'nothing' | 'unknown' {
  if (status === 200) return answer.decided === true ? 'done' : 'nothing'
  return String(answer.detail).includes('Nothing was decided.') ? 'nothing' : 'unknown'
}
