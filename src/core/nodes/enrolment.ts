/**
 * Bringing a node that forgot back among those that vote, one step at a time, over whatever nodes they are.
 *
 * Owns the acts: founding a brand-new cluster, and for one node in quarantine waiting, copying and enrolling. Which of
 * them is next is `enrolment-rules.ts`; what is told of a record is `record-merge.ts`. Every act may be done by several
 * sidecars at once and repeated: copying only raises, and what must happen once is conditional on the nonce on the node.
 * An act that fails rejects; whoever drives it looks at the nodes again and goes on.
 */

import type { Events } from '../events.ts'
import type { Random } from '../ports.ts'
import type { NodeRecord } from '../record/record.ts'
import { type Merged, mergeSightings, type Sighting } from '../record/record-merge.ts'
import {
  advanced,
  type Cluster,
  type CopyProgress,
  type EnrolmentStep,
  type EnrolmentView,
  nextEnrolmentStep,
  type Origin,
} from './enrolment-rules.ts'

/** What one node shows of some records. */
export type Shown = {
  /** It was enrolled when it answered: what it does not show it never knew. */
  readonly voting: boolean
  /** One entry a key, in order; undefined: it has none. `damaged` where it can't be read. */
  readonly sightings: readonly (Sighting | 'damaged' | undefined)[]
}

export type Adoption = { readonly key: string; readonly merged: Merged }

/** A node as enrolment sees it. Everything may reject; nothing may be carried out on another run of the node's process. */
export interface EnrolmentNode {
  readonly name: string
  /** Lets the quarantine begin, where none stands for this run of the node; an existing one only becomes `forgot`. */
  begin(nonce: string, origin: Origin): Promise<void>
  /** Lets it begin anew. */
  restart(nonce: string, nextNonce: string): Promise<void>
  /** False where the nonce does not stand any more. */
  save(nonce: string, progress: CopyProgress): Promise<boolean>
  /** Sets the epoch, where the nonce still stands. */
  enrol(nonce: string, cluster: Cluster): Promise<boolean>
  /** Some of its keys, and how to ask for more; {@link FIRST_CURSOR} at the end. A key that stays is shown at least once. */
  keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }>
  /** @param whole with outcomes; else records show an empty one */
  show(keys: readonly string[], whole: boolean): Promise<Shown>
  adopt(adoptions: readonly Adoption[]): Promise<void>
  /** Claims the node for the founding of a new cluster, for a while. False where it is not new, or claimed already. */
  claimFounding(nonce: string): Promise<boolean>
  /** Sets the first epoch, where the claim still stands and there is none. */
  found(nonce: string, cluster: Cluster): Promise<boolean>
  abandonFounding(nonce: string): Promise<void>
}

export type Peer = { readonly node: EnrolmentNode; readonly runId: string; readonly voting: boolean }

export type Turn =
  | Exclude<EnrolmentStep, { kind: 'copy' | 'finish' }>
  | { readonly kind: 'copied'; readonly keys: number; readonly progress: CopyProgress }
  | { readonly kind: 'enrolled' }
  /** The node forgot again meanwhile. */
  | { readonly kind: 'gone' }

export type EnrolmentPorts = { readonly random: Random; readonly events: Events }

/**
 * One step for one node in quarantine.
 *
 * @param peers all other nodes that answer
 */
export async function takeEnrolmentTurn(
  target: EnrolmentNode,
  peers: readonly Peer[],
  view: Omit<EnrolmentView, 'voting' | 'others'>,
  cluster: Cluster,
  { random, events }: EnrolmentPorts,
): Promise<Turn> {
  const { quarantine, required } = view
  const voting = peers.filter((peer) => peer.voting)
  const step = nextEnrolmentStep({ ...view, ...runIdsOf(peers) })
  switch (step.kind) {
    case 'wait':
    case 'blocked':
      return step
    case 'wait_anew':
      await target.restart(quarantine.nonce, random.hex(16))
      return step
    case 'finish':
      return { kind: (await target.enrol(quarantine.nonce, cluster)) ? 'enrolled' : 'gone' }
    case 'copy': {
      const witnesses = quarantine.declaredBy === undefined ? voting : peers
      const source = witnesses.find(({ runId }) => runId === step.sourceRunId)
      if (source === undefined)
        throw new Error(`the node of run ${step.sourceRunId} is not among the sources`)
      const page = await source.node.keys(step.cursor)
      const heard = await hear(page.keys, source, witnesses, required, quarantine.declaredBy !== undefined)
      const adoptions = await mergeAll(page.keys, heard, required, events)
      const news = await unknownTo(target, adoptions)
      if (news.length > 0) await target.adopt(news)
      const progress = advanced(quarantine.progress, source.runId, page.cursor, news.length)
      const saved = await target.save(quarantine.nonce, progress)
      return saved ? { kind: 'copied', keys: page.keys.length, progress } : { kind: 'gone' }
    }
  }
}

/** The other nodes as the rules name them. */
export function runIdsOf(peers: readonly Peer[]): Pick<EnrolmentView, 'voting' | 'others'> {
  const of = (voting: boolean) => peers.filter((peer) => peer.voting === voting).map(({ runId }) => runId)
  return { voting: of(true), others: of(false) }
}

type Heard = { readonly node: EnrolmentNode; readonly sightings: (Sighting | 'damaged' | undefined)[] }

/** The headers of `keys` on a majority of voting nodes, the source among them. */
async function hear(
  keys: readonly string[],
  source: Peer,
  witnesses: readonly Peer[],
  required: number,
  lossDeclared: boolean,
): Promise<readonly Heard[]> {
  const answers = await Promise.allSettled(witnesses.map(({ node }) => node.show(keys, false)))
  const heard = answers.flatMap((answer, index): Heard[] => {
    const witness = witnesses[index]
    if (answer.status === 'rejected' || witness === undefined) return []
    // A voter that turns out to have forgotten would pass for one that never knew.
    if (!answer.value.voting && !lossDeclared) return []
    return [{ node: witness.node, sightings: [...answer.value.sightings] }]
  })
  if (!heard.some(({ node }) => node === source.node))
    throw new Error(`${source.node.name} stopped voting while its records were copied`)
  if (heard.length < required && !lossDeclared)
    throw new Error(`${heard.length} voting nodes showed their records, ${required} are needed`)
  return heard
}

/** What each record amounts to on all that were heard, outcomes loaded from one that has them. */
async function mergeAll(
  keys: readonly string[],
  heard: readonly Heard[],
  required: number,
  events: Events,
): Promise<readonly Adoption[]> {
  const adoptions: Adoption[] = []
  const toLoad = new Map<Heard, number[]>()
  for (const [index, key] of keys.entries()) {
    const merged = mergeSightings(sightingsAt(heard, index), required)
    if (merged === undefined) continue
    if (merged.record.state !== 'completed') {
      adoptions.push({ key, merged })
      continue
    }
    const holder = heard.find(({ sightings }) => accepted(sightings[index]) === accepted(merged))
    if (holder === undefined) throw new Error('a merged outcome is held by nobody')
    toLoad.set(holder, [...(toLoad.get(holder) ?? []), index])
  }
  for (const [key, seen] of keys.map(
    (key, index) => [key, heard.map((one) => one.sightings[index])] as const,
  )) {
    if (seen.includes('damaged'))
      events.publish({
        kind: 'outcome_damaged',
        recordKey: key,
        reason: 'a record can’t be read by the node that keeps it',
      })
  }
  const loads = [...toLoad].flatMap(([holder, indexes]) =>
    chunked(indexes, LOAD_MAX_KEYS).map((some) => [holder, some] as const),
  )
  for (const [holder, indexes] of loads) {
    const whole = await holder.node.show(
      indexes.map((index) => keys[index] ?? ''),
      true,
    )
    for (const [at, index] of indexes.entries()) {
      holder.sightings[index] = whole.sightings[at]
      const merged = mergeSightings(sightingsAt(heard, index), required)
      // Gone or overtaken between the two looks: this page is gone through again.
      if (merged?.record.state === 'completed' && accepted(merged) !== accepted(holder.sightings[index]))
        throw new Error('an outcome was replaced while it was copied')
      const key = keys[index]
      if (merged !== undefined && key !== undefined) adoptions.push({ key, merged })
    }
  }
  return adoptions
}

/** Outcomes are loaded a few at a time: each may be as large as what a route lets be stored. */
const LOAD_MAX_KEYS = 8

function chunked<T>(all: readonly T[], size: number): readonly (readonly T[])[] {
  return Array.from({ length: Math.ceil(all.length / size) }, (_, n) => all.slice(n * size, (n + 1) * size))
}

function sightingsAt(heard: readonly Heard[], index: number): readonly Sighting[] {
  return heard.flatMap(({ sightings }) => {
    const seen = sightings[index]
    return seen === undefined || seen === 'damaged' ? [] : [seen]
  })
}

function accepted(seen: { readonly record: NodeRecord } | 'damaged' | undefined): number | undefined {
  return seen !== undefined && seen !== 'damaged' && seen.record.state === 'completed'
    ? seen.record.acceptedToken
    : undefined
}

/** Leaves out what the node has already: one that kept most of its memory is told little. */
async function unknownTo(
  target: EnrolmentNode,
  adoptions: readonly Adoption[],
): Promise<readonly Adoption[]> {
  if (adoptions.length === 0) return []
  const { sightings } = await target.show(
    adoptions.map(({ key }) => key),
    false,
  )
  return adoptions.filter(({ merged }, index) => {
    const own = sightings[index]
    if (own === undefined || own === 'damaged') return own === undefined
    const { record } = own
    const same =
      record.state === merged.record.state &&
      record.fence === merged.record.fence &&
      accepted(own) === accepted(merged) &&
      own.ttlMs >= merged.ttlMs &&
      (record.state !== 'completed' ||
        (record.copied === undefined) ===
          (merged.record.state === 'completed' && merged.record.copied === undefined))
    return !(same && record.state !== 'claimed')
  })
}

/**
 * Enrols all nodes of a brand-new cluster at once, where all of them are there and let themselves be claimed.
 * A founder that dies between its first epoch and its last leaves a cluster that only a declared loss gets going.
 */
export async function foundCluster(
  nodes: readonly EnrolmentNode[],
  quarantineMs: number,
  random: Random,
): Promise<boolean> {
  const nonce = random.hex(16)
  const claims = await Promise.allSettled(nodes.map((node) => node.claimFounding(nonce)))
  if (!claims.every((claim) => claim.status === 'fulfilled' && claim.value)) {
    await Promise.allSettled(nodes.map((node) => node.abandonFounding(nonce)))
    return false
  }
  const cluster: Cluster = { id: random.hex(8), quarantineMs }
  const founded = await Promise.allSettled(nodes.map((node) => node.found(nonce, cluster)))
  return founded.every((one) => one.status === 'fulfilled' && one.value)
}
