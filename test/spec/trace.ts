/**
 * Translates a recorded history into the model, as a driver for spec/trace.pml.
 *
 * Owns the numbers that stand for tokens, owners, contents and outcomes of one key (in their order, which is all that
 * counts), and where the trace of a key ends: when a node's retention of it is over, which the model does not know.
 */

import { NO_OWNER, type NodeRecord, type RecordCommand } from '../../src/core/record/record.ts'
import { millisecondOf } from '../../src/core/record/token.ts'
import { LEADERSHIP, MAX_TOKEN_AHEAD_MS } from '../simulation/plan.ts'
import { contentOfBytes } from '../simulation/sidecar.ts'
import type { Event, Kept, Recorded } from './recorder.ts'

/** As many of each as the model has room for. */
const MOST = 240

const STATES = { claimed: 1, released: 2, completed: 3 } as const
const ANSWERS: Readonly<Record<string, number>> = {
  granted: 1,
  held: 2,
  mismatch: 3,
  stale: 4,
  completed: 5,
  renewed: 6,
  lost: 7,
  recorded: 8,
  fenced: 9,
  released: 10,
  not_owner: 11,
  skewed: 12,
}

/** The lines of the driver, one key after the other, and how many steps they are. */
export function driverOf({ events, nodeCount }: Recorded): {
  readonly lines: readonly string[]
  readonly keys: number
} {
  const keys = new Set(
    events.flatMap((event) =>
      event.kind === 'executed' && event.command.key !== LEADERSHIP ? [event.command.key] : [],
    ),
  )
  const traces = [...keys]
    .map((key) => traceOf(key, inItsGroup(key, events, nodeCount)))
    .filter((lines) => lines.length > 0)
  return { lines: traces.flat(), keys: traces.length }
}

/** Of several quorum groups the one that keeps the key, its nodes counted from 0. */
function inItsGroup(key: string, events: readonly Event[], nodeCount: number): readonly Event[] {
  const first = events.find((event) => event.kind === 'executed' && event.command.key === key)
  const from = first !== undefined && 'node' in first ? first.node - (first.node % nodeCount) : 0
  return events.flatMap((event): readonly Event[] => {
    if (!('node' in event)) return [event]
    const node = event.node - from
    return node >= 0 && node < nodeCount ? [{ ...event, node }] : []
  })
}

function traceOf(key: string, events: readonly Event[]): readonly string[] {
  const own = untilRetentionEnds(key, events)
  const names = new Names(key, own)
  if (names.tooMany) return []
  const lines = [...names.says().map((say) => line({ kind: 0, ...say })), line({ kind: 0 })]
  // Says come after everything else was forgotten.
  lines.unshift(lines.pop() ?? '')
  const live = new Map<number, boolean>()
  const expire = (node: number, record: NodeRecord | undefined, nodeMs: number) => {
    const now = isLive(record, nodeMs)
    if ((live.get(node) ?? false) !== now) lines.push(line({ kind: 6, node, token: Number(now) }))
  }
  for (const event of own) {
    switch (event.kind) {
      case 'executed': {
        const { node, before, after } = event
        expire(node, before, after.nodeMs)
        lines.push(line({ ...stepOf(event, names), ...names.record(after) }))
        live.set(node, isLive(after.record, after.nodeMs))
        break
      }
      case 'told':
      case 'forgot': {
        const after =
          event.kind === 'told'
            ? event.after
            : (event.records.get(key) ?? { record: undefined, nodeMs: 0, expiresNodeMs: 0 })
        const kind = event.kind === 'told' ? 8 : 7
        lines.push(line({ kind, node: event.node, ...names.record(after) }))
        live.set(event.node, isLive(after.record, after.nodeMs))
        break
      }
      case 'votes':
        lines.push(line({ kind: 9, node: event.node }))
        break
      case 'granted':
        lines.push(
          line({
            kind: 10,
            token: names.token(event.token),
            nth: names.claim(event.token, event.owner),
          }),
        )
        break
      case 'shown':
        lines.push(line({ kind: 11, result: names.content(event.content) }))
    }
  }
  return lines
}

/** What concerns the key, up to the moment when a node has dropped its record because it is too old. */
function untilRetentionEnds(key: string, events: readonly Event[]): readonly Event[] {
  const expires = new Map<number, number>()
  const own: Event[] = []
  for (const event of events) {
    if (event.kind === 'executed') {
      if (event.command.key !== key) continue
      const expiresNodeMs = expires.get(event.node)
      // A promise may outlive its outcome: then a release is left.
      const isGone = event.before === undefined || event.before.state === 'released'
      if (expiresNodeMs !== undefined && isGone && event.after.nodeMs > expiresNodeMs) return own
      note(event.node, event.after)
    }
    if (event.kind === 'told') {
      if (event.key !== key) continue
      note(event.node, event.after)
    }
    if (event.kind === 'forgot') {
      const kept = event.records.get(key)
      expires.delete(event.node)
      if (kept !== undefined) note(event.node, kept)
    }
    if ((event.kind === 'granted' || event.kind === 'shown') && event.key !== key) continue
    own.push(event)
  }
  return own

  function note(node: number, { record, expiresNodeMs }: Kept): void {
    if (record === undefined) expires.delete(node)
    else expires.set(node, (record.state === 'completed' ? record.overAtNodeMs : undefined) ?? expiresNodeMs)
  }
}

function isLive(record: NodeRecord | undefined, nodeMs: number): boolean {
  return record?.state === 'claimed' && record.leaseUntilNodeMs > nodeMs
}

type Fields = Partial<Record<(typeof FIELDS)[number], number>>

/** As the macro `s` of spec/trace.pml takes them. */
const FIELDS = [
  ...['kind', 'node', 'counted', 'token', 'who', 'what', 'nth', 'ballot', 'result'],
  ...['answer', 'attempt', 'promised'],
  ...['state', 'fence', 'owner', 'live', 'att', 'content', 'accepted', 'outcome', 'copied', 'kept'],
] as const

function line(fields: Fields): string {
  return `s(${FIELDS.map((field) => fields[field] ?? 0).join(',')});`
}

function stepOf(event: Extract<Event, { kind: 'executed' }>, names: Names): Fields {
  const { node, command, answer, counted, before, after } = event
  const said = {
    node,
    counted: Number(counted),
    answer: ANSWERS[answer.kind] ?? 0,
    attempt: answer.kind === 'granted' ? answer.attempt : 0,
    promised: answer.kind === 'completed' ? Number(answer.promised) : 0,
  }
  const noStep =
    answer.kind === 'unreachable' || (command.kind !== 'read' && isTooFarAhead(command, before, after.nodeMs))
  if (noStep || command.kind === 'read') return { kind: 12, node }
  const by = { ...said, token: names.token(command.token), who: names.owner(command.owner) }
  switch (command.kind) {
    case 'claim': {
      const what = names.fingerprint(command.fingerprint)
      const kind = isUnwritten(command, before, after) ? 13 : 1
      return { kind, ...by, what, nth: names.claim(command.token, command.owner) }
    }
    case 'renew':
      return {
        kind: 2,
        ...by,
        what: names.fingerprint(command.fingerprint),
        nth: command.attempt,
        result: Number(command.raises === true),
      }
    case 'complete': {
      const { fingerprint, attempt: nth, acceptedToken } = command
      const of = { what: names.fingerprint(fingerprint), nth, result: names.outcome(command.outcome) }
      return acceptedToken === undefined
        ? { kind: 3, ...by, ...of }
        : { kind: 4, ...by, ...of, ballot: names.token(acceptedToken) }
    }
    case 'release':
      if (command.forgets) throw new Error('the model has no operators')
      return { kind: 5, ...by, result: Number(command.withdraws === true) }
  }
}

/** Refused for its clock, which the model lacks: where the command would raise the fence. */
function isTooFarAhead(
  { kind, token }: Exclude<RecordCommand, { kind: 'read' }>,
  before: NodeRecord | undefined,
  nodeMs: number,
): boolean {
  if (kind === 'complete' || millisecondOf(token) <= nodeMs + MAX_TOKEN_AHEAD_MS) return false
  if (kind === 'claim' || before === undefined) return true
  return kind === 'renew' ? token > before.fence : before.state === 'released' && token >= before.fence
}

/** A full node answers what it knows, and can't promise. */
function isUnwritten(
  { token }: Extract<RecordCommand, { kind: 'claim' }>,
  before: NodeRecord | undefined,
  { record }: Kept,
): boolean {
  return before?.state === 'completed' && token > before.fence && record?.fence === before.fence
}

/** Numbers from 1 for what occurs in the trace of one key, in the order in which nodes compare it. */
class Names {
  readonly #tokens: readonly number[]
  readonly #owners: readonly string[]
  readonly #fingerprints: readonly string[]
  readonly #outcomes: readonly string[]
  readonly #contents: readonly string[]
  readonly #claims: readonly string[]

  constructor(key: string, events: readonly Event[]) {
    const [tokens, owners, claims] = [new Set<number>(), new Set<string>(), new Set<string>()]
    const [fingerprints, outcomes, contents] = [new Set<string>(), new Set<string>(), new Set<string>()]
    const noteOutcome = (bytes: Buffer) => {
      outcomes.add(bytes.toString('latin1'))
      contents.add(contentOfBytes(bytes))
    }
    const noteRecord = (record: NodeRecord | undefined) => {
      if (record === undefined) return
      tokens.add(record.fence)
      if (record.state === 'released') return
      owners.add(record.owner)
      fingerprints.add(record.fingerprint)
      if (record.state !== 'completed') return
      tokens.add(record.acceptedToken)
      noteOutcome(record.outcome)
    }
    for (const event of events) {
      if (event.kind === 'granted') {
        tokens.add(event.token)
        claims.add(`${event.token} ${event.owner}`)
      }
      if (event.kind === 'shown') contents.add(event.content)
      if (event.kind === 'told') noteRecord(event.after.record)
      if (event.kind === 'forgot') noteRecord(event.records.get(key)?.record)
      if (event.kind !== 'executed' || event.command.kind === 'read') continue
      const { command, after } = event
      noteRecord(after.record)
      tokens.add(command.token)
      owners.add(command.owner)
      if (command.kind === 'claim') claims.add(`${command.token} ${command.owner}`)
      if (command.kind !== 'release') fingerprints.add(command.fingerprint)
      if (command.kind !== 'complete') continue
      noteOutcome(command.outcome)
      if (command.acceptedToken !== undefined) tokens.add(command.acceptedToken)
    }
    tokens.delete(0)
    owners.delete(NO_OWNER)
    this.#tokens = [...tokens].sort((a, b) => a - b)
    this.#owners = [...owners].sort()
    this.#fingerprints = [...fingerprints]
    this.#outcomes = [...outcomes]
    this.#contents = [...contents]
    this.#claims = [...claims]
  }

  get tooMany(): boolean {
    const all = [this.#tokens, this.#owners, this.#outcomes, this.#contents, this.#claims]
    return all.some((names) => names.length > MOST)
  }

  token = (token: number) => this.#tokens.indexOf(token) + 1
  owner = (owner: string) => this.#owners.indexOf(owner) + 1
  fingerprint = (fingerprint: string) => this.#fingerprints.indexOf(fingerprint) + 1
  outcome = (bytes: Buffer) => this.#outcomes.indexOf(bytes.toString('latin1')) + 1
  content = (content: string) => this.#contents.indexOf(content) + 1
  claim = (token: number, owner: string) => this.#claims.indexOf(`${token} ${owner}`) + 1

  /** The content of each outcome, whenever it was completed. */
  says(): readonly Fields[] {
    return this.#outcomes.map((bytes, index) => ({
      token: index + 1,
      result: this.content(contentOfBytes(Buffer.from(bytes, 'latin1'))),
    }))
  }

  record({ record, nodeMs }: Kept): Fields {
    if (record === undefined) return {}
    const { fence } = record
    if (record.state === 'released') return { state: STATES.released, fence: this.token(fence) }
    const { owner, attempt: att, fingerprint } = record
    const common = {
      fence: this.token(fence),
      owner: this.owner(owner),
      att,
      content: this.fingerprint(fingerprint),
    }
    if (record.state === 'claimed')
      return {
        state: STATES.claimed,
        ...common,
        live: Number(isLive(record, nodeMs)),
        kept: Number(record.kept === true),
      }
    return {
      state: STATES.completed,
      ...common,
      accepted: this.token(record.acceptedToken),
      outcome: this.outcome(record.outcome),
      copied: Number(record.copied === true),
    }
  }
}
