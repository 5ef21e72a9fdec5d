/**
 * Copies to a node that forgot what the others remember, page by page: a majority of voters is read, headers first, and outcomes only
 * where the node lacks them. What the answers amount to is `record-merge.ts`. Every step may be repeated.
 */

import { driftMs } from '../clock.ts'
import type { Events } from '../events.ts'
import { NO_OWNER, type NodeRecord } from '../record/record.ts'
import {
  leasedAtMost,
  type Merged,
  mergeSnapshots,
  onNoClock,
  type RecordSnapshot,
  untilItsEnd,
} from '../record/record-merge.ts'
import {
  type Adoption,
  advanced,
  type CopyProgress,
  FIRST_CURSOR,
  type Inspection,
  type Peer,
  type RejoiningNode,
  type RejoinStep,
  type RejoinView,
} from './rejoin-rules.ts'

export type CopyPorts = {
  readonly events: Events
  /** Called as keys are read, so that one turn copies many pages. Without it a turn copies one. */
  readonly goOn?: (keysLookedAt: number) => Promise<boolean>
  /** What was merged since the node forgot. Once is enough: its promises from now on do not count. */
  readonly merged?: MergedKeys
  /** Hears of running leases; absent where they are over. */
  readonly leases?: LeaseWatch
}

/** A key may be left out, where there are too many to remember: then it is read once more. */
export type MergedKeys = { has(key: string): boolean; add(key: string): unknown }

/** Some 20 MB. Beyond them each source is compared anew. */
const MERGED_MAX_KEYS = 100_000

export function mergedKeys(): MergedKeys {
  const keys = new Set<string>()
  return {
    has: (key) => keys.has(key),
    add: (key) => keys.size < MERGED_MAX_KEYS && keys.add(key),
  }
}

/** A node whose records are read. */
export type Source = Omit<Peer, 'node'> & { readonly node: Pick<RejoiningNode, 'name' | 'keys' | 'inspect'> }

export type CopyView = Pick<RejoinView, 'quarantine' | 'quarantineMs' | 'required'> & {
  /** So many nodes must show each record; by default a majority of all. */
  readonly hearAtLeast?: number
}

/** Reads on through one source for as long as the turn lasts. After a failure only the copied keys are remembered. */
export async function copyPages(
  target: RejoiningNode,
  peers: readonly Source[],
  { quarantine, quarantineMs, required, hearAtLeast = required }: CopyView,
  step: Extract<RejoinStep, { kind: 'copy' }>,
  { events, goOn, merged, leases }: CopyPorts,
): Promise<CopyProgress> {
  const lossDeclared = quarantine.declaredBy !== undefined
  // After a declared loss a node that was silent for a moment may be the only one that knows: read each source anew.
  const known = merged === undefined || lossDeclared ? new Set<string>() : merged
  const witnesses = lossDeclared ? peers : peers.filter((peer) => peer.voting)
  const source = witnesses.find(({ runId }) => runId === step.sourceRunId)
  if (source === undefined) throw new Error(`the node of run ${step.sourceRunId} is not among the sources`)
  // No sidecar takes longer leases than its quarantines wait for.
  const { nonce } = quarantine
  const rules = { nonce, required, hearAtLeast, lossDeclared, longestLeaseMs: quarantineMs, events, leases }
  const copying: Promise<number>[] = []
  let { cursor } = step
  let copied = 0
  let portions = 0
  try {
    for (let more = true; more; ) {
      const page = await source.node.keys(cursor)
      cursor = page.cursor
      more = cursor !== FIRST_CURSOR && goOn !== undefined
      for (const keys of chunked(page.keys.filter((key) => !known.has(key)))) {
        portions += 1
        const portion = copyKeys(target, keys, source, witnesses, portions, rules).then((count) => {
          for (const key of keys) known.add(key)
          return count
        })
        // A failure is handled where the portion is awaited below, not before its turn.
        portion.catch(() => {})
        copying.push(portion)
        // The oldest first: however slow the nodes are, the number under way is bounded.
        if (copying.length >= PORTIONS_AT_ONCE) copied += (await copying.shift()) ?? 0
        if (goOn !== undefined) more = (await goOn(keys.length)) && more
      }
      more &&= (await goOn?.(0)) === true
    }
    for (const portion of copying) copied += await portion
  } finally {
    await Promise.allSettled(copying)
  }
  // Had its clock jumped on the way, it would have silently returned fewer keys than it knew.
  if (!lossDeclared && !(await source.node.inspect([], false)).voting)
    throw new Error(`${source.node.name} stopped voting while its keys were gone through`)
  return advanced(quarantine.progress, source.runId, cursor, copied)
}

/** Parallel calls to one node: most of the time is the way there, and a disk that syncs. */
const PORTIONS_AT_ONCE = 4

/** Keys per call: under a millisecond of the node's time, in which it answers no claim. */
const PORTION_KEYS = 100

function chunked(keys: readonly string[]): readonly (readonly string[])[] {
  return Array.from({ length: Math.ceil(keys.length / PORTION_KEYS) }, (_, n) =>
    keys.slice(n * PORTION_KEYS, (n + 1) * PORTION_KEYS),
  )
}

type CopyRules = {
  /** Of the rejoin that this is for. */
  readonly nonce: string
  readonly required: number
  readonly hearAtLeast: number
  readonly lossDeclared: boolean
  readonly longestLeaseMs: number
  readonly events: Events
  readonly leases: LeaseWatch | undefined
}

/**
 * @param turn rotates the nodes that outcomes are loaded from
 * @returns how many records were copied to the node
 */
async function copyKeys(
  target: RejoiningNode,
  keys: readonly string[],
  source: Source,
  witnesses: readonly Source[],
  turn: number,
  { nonce, required, hearAtLeast, lossDeclared, longestLeaseMs, events, leases }: CopyRules,
): Promise<number> {
  const askedMonoMs = leases?.monoMs() ?? 0
  const [own, heard] = await Promise.all([
    target.inspect(keys, false),
    hear(keys, source, witnesses, hearAtLeast, lossDeclared),
  ])
  reportDamage(keys, heard, events)
  const updates: Update[] = keys.flatMap((key, index) => {
    const seen = mergeSnapshots(snapshotsAt(heard, index), required, leases === undefined)
    if (seen === undefined || isKnown(own.snapshots[index], seen)) return []
    return [{ key, index, merged: leasedAtMost(seen, longestLeaseMs) }]
  })
  const short = updates.filter(({ merged }) => merged.record.state !== 'completed')
  if (short.length > 0) await target.adopt(nonce, short)
  let copied = short.length
  // One portion of outcomes at a time is in our memory.
  for (const { holder, wanted } of toLoad(updates, heard, turn)) {
    const adoptions = await loadOutcomes(holder, wanted, heard, required)
    if (adoptions.length > 0) await target.adopt(nonce, adoptions)
    copied += adoptions.length
  }
  if (leases !== undefined) {
    const snapshots = keys.map((_, index) => snapshotsAt(heard, index))
    const terms = { required, longestMs: longestLeaseMs, askedMonoMs }
    await keepLeases(target, keys, snapshots, terms, leases)
  }
  return copied
}

type Heard = {
  readonly node: Source['node']
  /** The earliest clock of all that were heard. */
  readonly nowMs: number
  readonly snapshots: Inspection['snapshots']
}

/** The headers of `keys` on so many voting nodes, the source included. None shows an outcome past its end. */
async function hear(
  keys: readonly string[],
  source: Source,
  witnesses: readonly Source[],
  atLeast: number,
  lossDeclared: boolean,
): Promise<readonly Heard[]> {
  const answers = await Promise.allSettled(witnesses.map(({ node }) => node.inspect(keys, false)))
  const heard = answers.flatMap((answer, index) => {
    const witness = witnesses[index]
    if (answer.status === 'rejected' || witness === undefined) return []
    // A voter that turns out to have forgotten would look like one that never knew.
    if (!answer.value.voting && !lossDeclared) return []
    return [{ node: witness.node, ...answer.value }]
  })
  if (!heard.some(({ node }) => node === source.node))
    throw new Error(`${source.node.name} stopped voting while its records were copied`)
  if (heard.length < atLeast && !lossDeclared) {
    const silent = answers.find((answer) => answer.status === 'rejected')
    const why = silent === undefined ? '' : `: ${String(silent.reason)}`
    throw new Error(`${heard.length} nodes showed their records, ${atLeast} are needed${why}`)
  }
  const nowMs = Math.min(...heard.map(({ nodeMs }) => nodeMs))
  return heard.map(({ node, snapshots }) => ({
    node,
    nowMs,
    snapshots: snapshots.map((seen) =>
      seen === undefined || seen === 'damaged' ? seen : untilItsEnd(seen, nowMs),
    ),
  }))
}

type Update = Adoption & { readonly index: number }

type Load = { readonly holder: Heard; readonly wanted: readonly Update[] }

/** Which node to load which outcomes from, by size. */
function toLoad(updates: readonly Update[], heard: readonly Heard[], turn: number): readonly Load[] {
  const first = turn % heard.length
  const inTurn = [...heard.slice(first), ...heard.slice(0, first)]
  const byHolder = new Map<Heard, Update[]>()
  for (const one of updates) {
    if (one.merged.record.state !== 'completed') continue
    const holder = inTurn.find(({ snapshots }) => accepted(snapshots[one.index]) === accepted(one.merged))
    if (holder === undefined) throw new Error('a merged outcome is held by nobody')
    byHolder.set(holder, [...(byHolder.get(holder) ?? []), one])
  }
  return [...byHolder].flatMap(([holder, all]) => bySize(all, holder).map((wanted) => ({ holder, wanted })))
}

/** The same records with their outcomes. */
async function loadOutcomes(
  holder: Heard,
  wanted: readonly Update[],
  heard: readonly Heard[],
  required: number,
): Promise<readonly Adoption[]> {
  const { snapshots } = await holder.node.inspect(
    wanted.map(({ key }) => key),
    true,
  )
  return wanted.flatMap(({ key, index }, at): Adoption[] => {
    const whole = intact(snapshots[at]).map((seen) => untilItsEnd(seen, holder.nowMs))
    const others = heard.flatMap((one) => (one === holder ? [] : intact(one.snapshots[index])))
    // First, because of several snapshots of one outcome the first wins, and the others are headers without it.
    const merged = mergeSnapshots([...whole, ...others], required)
    // Gone or overtaken between the two reads: go through this page again.
    if (merged?.record.state === 'completed' && outcomeIn(merged) !== outcomeIn(whole[0]))
      throw new Error('an outcome was replaced while it was copied')
    return merged === undefined ? [] : [{ key, merged }]
  })
}

/** Bytes of outcomes in one answer: a fraction of a millisecond of the node's time. */
const LOAD_MAX_BYTES = 256 * 1024

/** Each outcome may be as large as a route allows: load in portions that delay no claim. */
function bySize(wanted: readonly Update[], holder: Heard): readonly (readonly Update[])[] {
  const portions: Update[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const one of wanted) {
    const seen = holder.snapshots[one.index]
    const size = seen === undefined || seen === 'damaged' ? 0 : (seen.sizeBytes ?? 0)
    if (bytes + size > LOAD_MAX_BYTES) {
      portions.push([])
      bytes = 0
    }
    portions.at(-1)?.push(one)
    bytes += size
  }
  return portions
}

function reportDamage(keys: readonly string[], heard: readonly Heard[], events: Events): void {
  const reason = 'a record can’t be read by the node that keeps it'
  for (const [index, recordKey] of keys.entries()) {
    if (heard.some(({ snapshots }) => snapshots[index] === 'damaged'))
      events.publish({ kind: 'outcome_damaged', recordKey, reason })
  }
}

function snapshotsAt(heard: readonly Heard[], index: number): readonly RecordSnapshot[] {
  return heard.flatMap(({ snapshots }) => intact(snapshots[index]))
}

function intact(seen: RecordSnapshot | 'damaged' | undefined): readonly RecordSnapshot[] {
  return seen === undefined || seen === 'damaged' ? [] : [seen]
}

function accepted(seen: { readonly record: NodeRecord } | 'damaged' | undefined): number | undefined {
  return seen !== undefined && seen !== 'damaged' && seen.record.state === 'completed'
    ? seen.record.acceptedToken
    : undefined
}

/** The very bytes: a header has only the first of them, which must not be copied. */
function outcomeIn(seen: { readonly record: NodeRecord } | 'damaged' | undefined): Buffer | undefined {
  return seen !== undefined && seen !== 'damaged' && seen.record.state === 'completed'
    ? seen.record.outcome
    : undefined
}

/** Skips what the node has already: a node that kept most of its memory adopts little. */
function isKnown(own: RecordSnapshot | 'damaged' | undefined, { record: theirs, ttlMs }: Merged): boolean {
  // What it can't read it can't adopt either.
  if (own === undefined || own === 'damaged') return own === 'damaged'
  const record = onNoClock(own)
  if (record.state === 'claimed' || record.state !== theirs.state) return false
  if (record.fence !== theirs.fence || own.ttlMs < ttlMs) return false
  if (record.state !== 'completed' || theirs.state !== 'completed') return true
  if (record.overAtNodeMs < (theirs.overAtNodeMs ?? ttlMs)) return false
  return record.acceptedToken === theirs.acceptedToken && record.copied === theirs.copied
}

/*
 * A merge keeps of two claims the highest, and drops a lease below another's fence. After a quarantine every lease is over; a node that is
 * to vote sooner must refuse other claimants for as long as it would have: it waits for every lease that it does not keep. A claim that
 * too few nodes can have granted has no holder; a completed one needs no lease any more.
 */

export type LeaseWatch = {
  monoMs(): number
  /** Nodes that do not vote now: each of them may have granted a lease that it does not show. */
  readonly mayHaveForgotten: number
  /** Called for a lease that the node does not keep, with its remaining time. */
  owes(remainingMs: number): void
}

type Running = { readonly record: Extract<NodeRecord, { state: 'claimed' }>; readonly remainingMs: number }

/**
 * @param snapshots for each key one entry per node that answered; sent at `askedMonoMs`
 * @param longestMs no lease is longer
 */
export async function keepLeases(
  target: RejoiningNode,
  keys: readonly string[],
  snapshots: readonly (readonly RecordSnapshot[])[],
  {
    required,
    longestMs,
    askedMonoMs,
  }: { readonly required: number; readonly longestMs: number; readonly askedMonoMs: number },
  watch: LeaseWatch,
): Promise<void> {
  const running = keys.map((_, index) => runningLeases(snapshots[index] ?? [], required, longestMs, watch))
  const wanted = keys.flatMap((key, index) => ((running[index]?.length ?? 0) > 0 ? [{ key, index }] : []))
  if (wanted.length === 0) return
  // Its present state: a record written between reading and adopting may have won over the adopted one.
  const own = await target.inspect(
    wanted.map(({ key }) => key),
    false,
  )
  const elapsedMs = watch.monoMs() - askedMonoMs
  for (const [at, { index }] of wanted.entries()) {
    for (const lease of running[index] ?? []) {
      if (!isKept(lease, own.snapshots[at], elapsedMs + driftMs(elapsedMs))) watch.owes(lease.remainingMs)
    }
  }
}

function runningLeases(
  snapshots: readonly RecordSnapshot[],
  required: number,
  longestMs: number,
  { mayHaveForgotten }: LeaseWatch,
): readonly Running[] {
  const all = snapshots.flatMap(({ record, nodeMs }): Running[] => {
    if (record.state !== 'claimed' || record.leaseUntilNodeMs <= nodeMs) return []
    return [{ record, remainingMs: Math.min(longestMs, record.leaseUntilNodeMs - nodeMs) }]
  })
  return all.filter(({ record }) => {
    const holders = all.filter((other) => other.record.owner === record.owner).length
    return record.owner !== NO_OWNER && holders + mayHaveForgotten >= required
  })
}

/** Whether the node refuses everyone but the holder for as long as the lease runs. */
function isKept(
  { record: claim, remainingMs }: Running,
  own: Inspection['snapshots'][number],
  elapsedMs: number,
): boolean {
  if (own === undefined || own === 'damaged') return own === 'damaged'
  const { record, nodeMs } = own
  switch (record.state) {
    case 'released':
      return false
    case 'completed':
      return record.acceptedToken >= claim.fence
    case 'claimed':
      return (
        (record.owner === claim.owner || record.owner === NO_OWNER) &&
        record.leaseUntilNodeMs - nodeMs + elapsedMs >= remainingMs
      )
  }
}
