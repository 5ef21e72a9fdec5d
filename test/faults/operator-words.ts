/**
 * What an operator of a fault run says to the operator API, and how it reads the answers.
 *
 * Owns the words alone; `clients.ts` sends them, `load.ts` decides which.
 */

import { type Decision, NOT_KEPT, type Said } from './history.ts'

/** A record about which something can be decided, as the operator saw it. */
export type Sight = {
  readonly record: string
  readonly state: Decision['was']
  readonly token: number
}

const DECIDABLE: ReadonlySet<unknown> = new Set(['live', 'expired', 'completed'])

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
    ...(state === 'expired' ? {} : { even_though: state }),
  }
  const { reason } = words
  if (f === 'operator-requeue') return { body: { reason } }
  // A reservation's caller is told no result.
  if (f === 'operator-discard')
    return { body: { reason, completed: true }, result: of === 'request' ? NOT_KEPT : 'null' }
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
  if (status === 200 && answer.decided === true) return 'done'
  // Of a letter: a fenced decision may have reached some nodes before.
  if (status === 200) return answer.because === 'fenced' ? 'unknown' : 'nothing'
  if (answer.code === 'dead-letter-unknown') return 'nothing'
  return String(answer.detail).includes('Nothing was decided.') ? 'nothing' : 'unknown'
}

/** The lock id of the claim that it saw, as the application was told it. */
export function lockOf({ record, token }: Sight): string {
  return `${record.slice(-64).slice(0, 16)}-${token}`
}

/** The open dead letter of the claim that it saw. */
export function letterOf(
  { record, token }: Sight,
  answer: Readonly<Record<string, unknown>>,
): string | undefined {
  const entries = Array.isArray(answer.entries) ? (answer.entries as Record<string, unknown>[]) : []
  const letter = entries.find((one) => one.record === record && Number(one.token) === token)
  return letter === undefined ? undefined : String(letter.id)
}

/**
 * The effect of asking: since its books are open the application says the same to the sweeper, so only what the operator
 * was plainly told is known.
 */
export function effectOfAsking(
  effect: 'done' | 'nothing' | 'unknown',
  said: Said,
  verdict: unknown,
): 'done' | 'nothing' | 'unknown' {
  if (said === 'unknown') return 'nothing'
  return effect === 'done' && verdict === said ? 'done' : 'unknown'
}
