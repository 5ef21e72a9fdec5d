/**
 * What is known of each node, by whom, and the one question to it: may the node vote, and if not, why, and what ends that?
 *
 * An incarnation names the run of a process, and has a nonce. It is data, so it can stand where the node has forgotten: after
 * an eviction, under data of before (a volume, a virtual machine restored with its memory, a replication), on a server that was out of
 * use, or on one of two servers that are used under one name. Each of these shows in what is kept here:
 *
 *   own       what this process saw of the node itself: its incarnations, its write counter, its newest heartbeat. It counts alone
 *   hearsay   what other nodes note of it. It counts where two of them say so, and as far as it is possible (`hearsay.ts`)
 *   itself    what the node says of itself. It counts for itself alone
 *
 * A node that says what is not possible, and that no other says, loses its own vote, while a majority of others votes.
 *
 * Owns these judgements and the memory for them, of one process. `clock-samples.ts` judges jumps, `continuity.ts` restarts.
 */

import { HEARTBEAT_EVERY_MS, type Heartbeat } from './continuity.ts'
import {
  type Claim,
  DUPLICATE_HEARTBEATS,
  type DuplicateServer,
  DuplicateServers,
  Hearsay,
  yieldsTo,
} from './hearsay.ts'
import {
  hasEvictedSince,
  hasJoined,
  joinedAtNodeMs,
  type Lineage,
  LONGEST_QUARANTINE_MS,
  lineageIn,
  type Membership,
  nonceIn,
  wasReplicaSince,
} from './rejoin-rules.ts'

/** The write counters of heartbeats: each is counted with it, and under one incarnation the counter only grows, whatever clocks do. */
export type Counters = {
  /** 0 where none was written. */
  readonly own: number
  /** By the name of another node: the nonce of its incarnation, `:`, and its counter. */
  readonly others: ReadonlyMap<string, string>
}

export type IncarnationShown = {
  readonly runId: string
  readonly incarnation: string | undefined
  readonly role: string
  readonly lineage: Lineage
  /** Since its process started, or since its counters were reset. */
  readonly evictedKeys: number
}

type WithHeartbeat = { readonly heartbeat: Pick<Heartbeat, 'runId' | 'nodeMs' | 'others'> | undefined }
export type Shown = Membership &
  IncarnationShown &
  WithHeartbeat & { readonly counters: Counters | undefined }

/** Why a node may not go on voting under the incarnation that it shows. */
export type Doubt =
  | 'evicted'
  | 'replica'
  | 'old_incarnation'
  | 'set_back'
  | 'stale_incarnation'
  | 'duplicate_server'
  | 'impossible_claim'
  | 'clock_jump'

export type Verdict = { readonly doubt: Doubt; readonly reason: string }

/** In words. What ends it is that the node rejoins, where they say nothing else. */
export const DOUBTS: Readonly<Record<Exclude<Doubt, 'clock_jump' | 'impossible_claim'>, string>> = {
  evicted: 'it has evicted keys',
  replica: 'it was a replica of another server, whose data may lack what it had promised',
  old_incarnation: 'its data were set back: it has an incarnation of before',
  set_back: 'its data were set back',
  stale_incarnation: 'its name has led to another server since, and what was recorded there it lacks',
  duplicate_server:
    'its name leads to two servers: sidecars use another one under it as well. Stop the one that is not the node',
}

/** Notes of a node that has just joined are on their way for a second or two. */
const NOTED_WITHIN_MS = 3_000

/** Heartbeats beside those that are due, each for a name or a setting that was changed. */
const HEARTBEATS_BESIDE = 100

/** A note of a heartbeat that is further ahead than this, and than clocks may be apart, is of no clock of this cluster. */
const FUTURE_MS = 10_000

/**
 * A clock that was ahead, and is right again, leaves notes of what was then its time on the other nodes: they are not believed, and no
 * lie. Clocks are wrong by hours (of another zone) or days; a note that is further ahead than this was written by no clock.
 */
const NO_CLOCK_MS = 366 * 86_400_000

type SeenIncarnation = {
  readonly incarnation: string | undefined
  readonly sinceMonoMs: number
  readonly lineage: Lineage
  readonly evictedKeys: number
}

type Own = {
  current: SeenIncarnation | undefined
  /** Incarnations that others have replaced, or that were taken away. Rejoins are few, as of all that follows. */
  readonly past: Set<string>
  /** By nonce: the largest counter that was seen, and the newest heartbeat. */
  readonly counters: Map<string, Claim>
  readonly used: Map<string, number>
  /** Between its last use and the first poll it here: what this process writes to it since proves no use of then. */
  unused: { readonly nonce: string; readonly fromMs: number; readonly toMs: number } | undefined
  /** Of the incarnation at the last poll; undefined where it does not vote. */
  nonce: string | undefined
}

/** When a node was polled, and what else is known then. */
export type Polled = {
  /** What became known later may be later than what the node showed. */
  readonly sentMonoMs: number
  readonly receivedMonoMs: number
  /** A majority votes without it. */
  readonly othersVote: boolean
}

export class NodeHistory {
  readonly #toleratedStepMs: number
  readonly #own = new Map<string, Own>()
  /** By nonce: counters, and the heartbeats until which each was in use. */
  readonly #counters = new Hearsay()
  readonly #used = new Hearsay()
  readonly #heartbeats: Hearsay
  readonly #duplicates = new DuplicateServers()
  readonly #heartbeatEveryMs: number

  /** @param heartbeats what nodes note of each other's newest ones (`continuity.ts`) */
  constructor(toleratedStepMs: number, heartbeats = new Hearsay(), heartbeatEveryMs = HEARTBEAT_EVERY_MS) {
    this.#toleratedStepMs = toleratedStepMs
    this.#heartbeats = heartbeats
    this.#heartbeatEveryMs = heartbeatEveryMs
  }

  /** The incarnation at the last poll, and since when it is known. */
  seen(name: string): Pick<SeenIncarnation, 'incarnation' | 'sinceMonoMs'> | undefined {
    return this.#own.get(name)?.current
  }

  /** By the incarnations of the node alone: for one that speaks under another name than here. */
  sawIncarnation(name: string, shown: IncarnationShown, nowMonoMs: number): Verdict | undefined {
    const own = this.#of(name)
    const { incarnation, role, lineage, evictedKeys } = shown
    const before = own.current?.incarnation === incarnation ? own.current : undefined
    if (before === undefined && own.current?.incarnation !== undefined) own.past.add(own.current.incarnation)
    const {
      sinceMonoMs = nowMonoMs,
      lineage: first = lineage,
      evictedKeys: evictedBefore = evictedKeys,
    } = before ?? {}
    // A counter that was reset counts on from there.
    own.current = {
      incarnation,
      sinceMonoMs,
      lineage: first,
      evictedKeys: Math.min(evictedBefore, evictedKeys),
    }
    if (incarnation === undefined) return undefined
    // In this run, and it has not voted in it: what it had when it was started again is not what it shows.
    if (!hasJoined(shown)) return evictedKeys > 0 ? verdict('evicted') : undefined
    if (role !== 'master' || wasReplicaSince(lineageIn(incarnation) ?? first, lineage))
      return verdict('replica')
    if (own.past.has(incarnation)) return verdict('old_incarnation')
    return hasEvictedSince(evictedBefore, evictedKeys) ? verdict('evicted') : undefined
  }

  /** A node was polled. @returns why it may not vote under the incarnation that it shows; undefined: nothing shows it */
  saw(name: string, shown: Shown, polled: Polled): Verdict | undefined {
    const forgot = this.sawIncarnation(name, shown, polled.receivedMonoMs)
    const own = this.#of(name)
    const nonce = hasJoined(shown) && shown.incarnation !== undefined ? nonceIn(shown.incarnation) : undefined
    own.nonce = nonce
    this.#duplicates.saw(name, nonce ?? `waiting ${shown.runId}`, polled.receivedMonoMs)
    const heartbeatMs = heartbeatOf(shown)
    if (nonce !== undefined && heartbeatMs !== undefined && heartbeatMs <= this.#futureMs(shown))
      raise(own.used, nonce, heartbeatMs)
    if (nonce !== undefined && own.unused?.nonce !== nonce)
      own.unused = { nonce, fromMs: lastUseMs(shown) ?? Number.POSITIVE_INFINITY, toMs: shown.nodeMs }
    const ownLie = this.#ownLie(own, shown, polled.receivedMonoMs)
    const lie = this.#hear(name, shown, polled.receivedMonoMs) ?? ownLie
    if (forgot !== undefined) return forgot
    if (lie !== undefined && nonce !== undefined && polled.othersVote) {
      this.#disbelieve(name)
      const reason = `it says what cannot be: ${lie}. Find out what wrote to it`
      return { doubt: 'impossible_claim', reason }
    }
    if (this.isStale(name, shown)) {
      own.used.clear()
      this.#used.forget(name)
      return verdict('stale_incarnation')
    }
    if (nonce === undefined || shown.counters === undefined || ownLie !== undefined) return undefined
    const isSetBack = this.#wasSetBack(name, own, nonce, shown, polled)
    this.#count(own, nonce, shown.counters.own, polled.receivedMonoMs)
    if (isSetBack) return verdict('set_back')
    const other = this.duplicateOf(name, polled.receivedMonoMs)
    return other?.lives === true && yieldsTo(nonce, other.nonce) ? verdict('duplicate_server') : undefined
  }

  /** Its heartbeat was written under that incarnation. */
  wrote(name: string, incarnation: string, counter: number, nowMonoMs: number): void {
    this.#count(this.#of(name), nonceIn(incarnation), counter, nowMonoMs)
  }

  /** What other nodes may note of it: what was seen here, or is believed. Undefined where nothing is known of its last rejoin. */
  noteOf(name: string): string | undefined {
    const own = this.#own.get(name)
    if (own?.nonce === undefined) return undefined
    const [seen, heard] = [own.counters.get(own.nonce), this.#counters.believed(name, own.nonce)]
    const counter = Math.max(seen?.value ?? 0, heard?.value ?? 0)
    return counter === 0 ? undefined : `${own.nonce}:${counter}`
  }

  /**
   * Whether a node's note about another one is so old, or about so different an incarnation, that it must be written even though
   * nobody else's note of this moment is: two servers behind one name are known by such notes alone.
   */
  isBehind(name: string, noted: string | undefined): boolean {
    const note = this.noteOf(name)
    if (note === undefined) return false
    const [[nonce, counter], [itsNonce, itsCounter]] = [splitNote(note), splitNote(noted ?? '')]
    return nonce !== itsNonce || !(itsCounter > counter - DUPLICATE_HEARTBEATS)
  }

  /**
   * Whether another incarnation of this name was in use long after this one had its last heartbeat: a change of DNS that was taken
   * back while the first server still ran. That a note still stands says nothing: where the list of nodes is changed each node gets
   * another incarnation, and the others note the one of before until a sidecar has seen both.
   */
  isStale(name: string, shown: Membership & WithHeartbeat): boolean {
    const lastMs = lastUseMs(shown)
    if (lastMs === undefined || shown.incarnation === undefined) return false
    const nonce = nonceIn(shown.incarnation)
    const marginMs = NOTED_WITHIN_MS + 2 * this.#toleratedStepMs
    const { used = new Map<string, number>(), unused } = this.#own.get(name) ?? {}
    const usedMs = (by: string) => Math.max(used.get(by) ?? 0, this.#used.believed(name, by)?.value ?? 0)
    const wasUnused = (ms: number) =>
      ms > lastMs + marginMs ||
      (unused?.nonce === nonce && ms > unused.fromMs + marginMs && ms <= unused.toMs)
    const all = [...used.keys(), ...this.#used.topicsOf(name)]
    return all.some((other) => other !== nonce && wasUnused(usedMs(other)))
  }

  /** Another server that is used under its name; undefined where none was seen. */
  duplicateOf(name: string, nowMonoMs: number): DuplicateServer | undefined {
    return this.#duplicates.of(name, nowMonoMs)
  }

  /** What was made of a server that no longer lives need not be made again. */
  outlived(name: string): void {
    this.#duplicates.forget(name)
  }

  /** A node speaks of the others. @returns what of that is not possible, and only this node says */
  #hear(by: string, shown: Shown, nowMonoMs: number): string | undefined {
    const lies: string[] = []
    const [futureMs, heartbeatMs] = [this.#futureMs(shown), heartbeatOf(shown)]
    const { quarantineMs = 0 } = shown.cluster ?? {}
    if (!(quarantineMs <= LONGEST_QUARANTINE_MS)) lies.push(`a quarantine of ${quarantineMs} ms`)
    for (const [about, ms] of shown.heartbeat?.others ?? [])
      if (!(ms <= shown.nodeMs + NO_CLOCK_MS)) lies.push(`a heartbeat of ${about} that is to come`)
    for (const [about, note] of shown.counters?.others ?? []) {
      const [nonce, counter] = splitNote(note)
      if (!(counter > 0)) continue
      this.#counters.heard(by, about, nonce, counter, nowMonoMs)
      const possible = this.#possible(this.#own.get(about), nonce, shown.nodeMs, nowMonoMs)
      if (counter > possible) {
        if (!this.#counters.isSaidBesides(by, about, nonce, possible))
          lies.push(`${counter} heartbeats of ${about}`)
        continue
      }
      const heardMs = shown.heartbeat?.others.get(about)
      if (heartbeatMs !== undefined && heardMs !== undefined && Math.min(heartbeatMs, heardMs) <= futureMs)
        this.#used.heard(by, about, nonce, Math.min(heartbeatMs, heardMs), nowMonoMs)
      this.#duplicates.noted(by, about, nonce, counter, nowMonoMs)
    }
    return lies[0]
  }

  #futureMs({ nodeMs }: Shown): number {
    return nodeMs + FUTURE_MS + 2 * this.#toleratedStepMs
  }

  /** How many heartbeats an incarnation can have had: by what was seen of it here, or by the time since it joined. */
  #possible(own: Own | undefined, nonce: string, nodeMs: number, nowMonoMs: number): number {
    // None has had more than since 1970.
    const ever = nodeMs / this.#heartbeatEveryMs
    if (own?.nonce !== nonce || own.current?.incarnation === undefined) return ever
    const sinceMs = nodeMs - (joinedAtNodeMs(own.current.incarnation) ?? 0)
    const byTime = HEARTBEATS_BESIDE + (2 * Math.max(0, sinceMs)) / this.#heartbeatEveryMs
    // All clocks may have been ahead when it joined, and right now: then its own counter says more.
    return Math.min(ever, Math.max(byTime, this.#grown(own.counters.get(nonce), nowMonoMs)))
  }

  /** Four times as fast as heartbeats are due: by a clock that is right. */
  #grown(claim: Claim | undefined, nowMonoMs: number): number {
    if (claim === undefined) return 0
    return (
      claim.value +
      HEARTBEATS_BESIDE +
      (4 * Math.max(0, nowMonoMs - claim.sinceMonoMs)) / this.#heartbeatEveryMs
    )
  }

  /** What its own counter says that is not possible, since it was seen last. */
  #ownLie(own: Own, { counters, nodeMs }: Shown, nowMonoMs: number): string | undefined {
    const { nonce } = own
    if (nonce === undefined) return undefined
    const isKnown = own.counters.has(nonce)
    const possible = this.#possible(isKnown ? own : undefined, nonce, nodeMs, nowMonoMs)
    const count = counters?.own ?? 0
    return count > possible ? `${count} heartbeats of its own` : undefined
  }

  #wasSetBack(name: string, own: Own, nonce: string, shown: Shown, polled: Polled): boolean {
    const possible = this.#possible(own, nonce, shown.nodeMs, polled.receivedMonoMs)
    const known = [own.counters.get(nonce), this.#counters.believed(name, nonce, possible)]
    return known.some(
      (claim) =>
        claim !== undefined &&
        claim.sinceMonoMs < polled.sentMonoMs &&
        (shown.counters?.own ?? 0) < claim.value,
    )
  }

  #count(own: Own, nonce: string, counter: number, sinceMonoMs: number): void {
    // 0 is no heartbeat, and NaN no number.
    if (counter > (own.counters.get(nonce)?.value ?? 0))
      own.counters.set(nonce, { value: counter, sinceMonoMs })
  }

  #disbelieve(name: string): void {
    for (const claims of [this.#counters, this.#used, this.#heartbeats, this.#duplicates])
      claims.disbelieve(name)
  }

  #of(name: string): Own {
    const known = this.#own.get(name)
    if (known !== undefined) return known
    const [past, counters, used] = [new Set<string>(), new Map<string, Claim>(), new Map<string, number>()]
    const own: Own = { current: undefined, past, counters, used, unused: undefined, nonce: undefined }
    this.#own.set(name, own)
    return own
  }
}

function verdict(doubt: keyof typeof DOUBTS): Verdict {
  return { doubt, reason: DOUBTS[doubt] }
}

function raise(values: Map<string, number>, key: string, value: number): void {
  values.set(key, Math.max(values.get(key) ?? 0, value))
}

/** The nonce and the counter of a note; NaN where there is no number. */
export function splitNote(note: string): readonly [nonce: string, counter: number] {
  const end = note.lastIndexOf(':')
  return [note.slice(0, end), Number(note.slice(end + 1))]
}

/** The newest heartbeat of the run that votes; undefined where it has none: nothing says when it was used. */
export function heartbeatOf(shown: Membership & WithHeartbeat): number | undefined {
  return hasJoined(shown) && shown.heartbeat?.runId === shown.runId ? shown.heartbeat.nodeMs : undefined
}

/** When the incarnation that votes was last in use; undefined where nothing says so. */
function lastUseMs(shown: Membership & WithHeartbeat): number | undefined {
  const heartbeatMs = heartbeatOf(shown)
  if (heartbeatMs === undefined || shown.incarnation === undefined) return undefined
  return Math.max(heartbeatMs, joinedAtNodeMs(shown.incarnation) ?? 0)
}
