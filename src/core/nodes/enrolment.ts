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
  FIRST_CURSOR,
  nextEnrolmentStep,
  type Origin,
} from './enrolment-rules.ts'

/** What one node shows of some records. */
export type Shown = {
  /** It was enrolled when it answered: what it does not show it never knew. */
  readonly voting: boolean
  /** One entry a key, in order; undefined: it has none. `damaged` where it can't be read. */
  readonly sightings: readonly (ShownRecord | 'damaged' | undefined)[]
}

/** `sizeBytes`: how large it is with its outcome, where the node says so. */
export type ShownRecord = Sighting & { readonly sizeBytes?: number }

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
  | { readonly kind: 'copied'; readonly progress: CopyProgress }
  | { readonly kind: 'enrolled' }
  /** The node forgot again meanwhile. */
  | { readonly kind: 'gone' }

export type EnrolmentPorts = {
  readonly random: Random
  readonly events: Events
  /** Asked after each page of keys, so that one turn copies many. Where it is not given a turn copies one. */
  readonly goOn?: (keysLookedAt: number) => Promise<boolean>
  /** What was merged since the node forgot. Once is enough: what it promises from now on does not count. */
  readonly merged?: MergedKeys
}

/** A key may be left out, where there are too many to remember: then it is looked at once more. */
export type MergedKeys = { has(key: string): boolean; add(key: string): unknown }

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
  ports: EnrolmentPorts,
): Promise<Turn> {
  const { quarantine } = view
  const step = nextEnrolmentStep({ ...view, ...runIdsOf(peers) })
  switch (step.kind) {
    case 'wait':
    case 'blocked':
      return step
    case 'wait_anew':
      await target.restart(quarantine.nonce, ports.random.hex(16))
      return step
    case 'finish':
      return { kind: (await target.enrol(quarantine.nonce, cluster)) ? 'enrolled' : 'gone' }
    case 'copy': {
      const progress = await copyPages(target, peers, view, step, ports)
      return (await target.save(quarantine.nonce, progress)) ? { kind: 'copied', progress } : { kind: 'gone' }
    }
  }
}

/** Goes on through one source for as long as it may in one turn. Where it breaks off, nothing of the turn is remembered. */
async function copyPages(
  target: EnrolmentNode,
  peers: readonly Peer[],
  { quarantine, required }: Pick<EnrolmentView, 'quarantine' | 'required'>,
  step: Extract<EnrolmentStep, { kind: 'copy' }>,
  { events, goOn, merged: known = new Set<string>() }: EnrolmentPorts,
): Promise<CopyProgress> {
  const lossDeclared = quarantine.declaredBy !== undefined
  const witnesses = lossDeclared ? peers : peers.filter((peer) => peer.voting)
  const source = witnesses.find(({ runId }) => runId === step.sourceRunId)
  if (source === undefined) throw new Error(`the node of run ${step.sourceRunId} is not among the sources`)
  const rules = { required, lossDeclared, events }
  const copying: Promise<number>[] = []
  let { cursor } = step
  let copied = 0
  try {
    for (let more = true; more; ) {
      const page = await source.node.keys(cursor)
      const keys = page.keys.filter((key) => !known.has(key))
      const copyingPage = copyKeys(target, keys, source, witnesses, rules).then((count) => {
        for (const key of keys) known.add(key)
        return count
      })
      // Where it fails it is asked for below, not before its turn.
      copyingPage.catch(() => {})
      copying.push(copyingPage)
      cursor = page.cursor
      more = cursor !== FIRST_CURSOR && goOn !== undefined && (await goOn(keys.length))
      // The oldest first: however slow the nodes are, some pages are under way and no more.
      while (copying.length > (more ? PAGES_AT_ONCE - 1 : 0)) copied += (await copying.shift()) ?? 0
    }
  } finally {
    await Promise.allSettled(copying)
  }
  return advanced(quarantine.progress, source.runId, cursor, copied)
}

/** Calls that a source answers beside each other: what takes long is the way there, and a disk that syncs. */
const PAGES_AT_ONCE = 4

type CopyRules = { readonly required: number; readonly lossDeclared: boolean; readonly events: Events }

/** @returns how many records the node was told */
async function copyKeys(
  target: EnrolmentNode,
  keys: readonly string[],
  source: Peer,
  witnesses: readonly Peer[],
  { required, lossDeclared, events }: CopyRules,
): Promise<number> {
  if (keys.length === 0) return 0
  const [own, heard] = await Promise.all([
    target.show(keys, false),
    hear(keys, source, witnesses, required, lossDeclared),
  ])
  tellOfDamage(keys, heard, events)
  const news: News[] = keys.flatMap((key, index) => {
    const merged = mergeSightings(sightingsAt(heard, index), required)
    return merged === undefined || isKnown(own.sightings[index], merged) ? [] : [{ key, index, merged }]
  })
  const whole = news.filter(({ merged }) => merged.record.state === 'completed')
  const adoptions: Adoption[] = [
    ...news.filter(({ merged }) => merged.record.state !== 'completed'),
    ...(await loadOutcomes(whole, heard, required)),
  ]
  if (adoptions.length > 0) await target.adopt(adoptions)
  return adoptions.length
}

/** The other nodes as the rules name them. */
export function runIdsOf(peers: readonly Peer[]): Pick<EnrolmentView, 'voting' | 'others'> {
  const of = (voting: boolean) => peers.filter((peer) => peer.voting === voting).map(({ runId }) => runId)
  return { voting: of(true), others: of(false) }
}

type Heard = { readonly node: EnrolmentNode; readonly sightings: Shown['sightings'] }

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
    return [{ node: witness.node, sightings: answer.value.sightings }]
  })
  if (!heard.some(({ node }) => node === source.node))
    throw new Error(`${source.node.name} stopped voting while its records were copied`)
  if (heard.length < required && !lossDeclared)
    throw new Error(`${heard.length} voting nodes showed their records, ${required} are needed`)
  return heard
}

type News = Adoption & { readonly index: number }

/** The same records with their outcomes, each loaded from one that has it; who is asked is spread over those that do. */
async function loadOutcomes(
  news: readonly News[],
  heard: readonly Heard[],
  required: number,
): Promise<readonly Adoption[]> {
  const toLoad = new Map<Heard, News[]>()
  for (const one of news) {
    const holders = heard.filter(({ sightings }) => accepted(sightings[one.index]) === accepted(one.merged))
    const holder = holders[one.index % holders.length]
    if (holder === undefined) throw new Error('a merged outcome is held by nobody')
    toLoad.set(holder, [...(toLoad.get(holder) ?? []), one])
  }
  const loaded = [...toLoad].map(async ([holder, wanted]) => {
    const adoptions: Adoption[] = []
    for (const some of bySize(wanted, holder)) {
      const { sightings } = await holder.node.show(
        some.map(({ key }) => key),
        true,
      )
      for (const [at, { key, index }] of some.entries()) {
        const seen = heard.map((one) => (one === holder ? sightings[at] : one.sightings[index]))
        const merged = mergeSightings(seen.flatMap(intact), required)
        // Gone or overtaken between the two looks: this page is gone through again.
        if (merged?.record.state === 'completed' && accepted(merged) !== accepted(sightings[at]))
          throw new Error('an outcome was replaced while it was copied')
        if (merged !== undefined) adoptions.push({ key, merged })
      }
    }
    return adoptions
  })
  return (await Promise.all(loaded)).flat()
}

/** Bytes of outcomes in one answer: a fraction of a millisecond of the node's time. */
const LOAD_MAX_BYTES = 256 * 1024

/** Each outcome may be as large as what a route lets be stored: in portions that hold up no claim. */
function bySize(wanted: readonly News[], holder: Heard): readonly (readonly News[])[] {
  const portions: News[][] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const one of wanted) {
    const seen = holder.sightings[one.index]
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

function tellOfDamage(keys: readonly string[], heard: readonly Heard[], events: Events): void {
  const reason = 'a record can’t be read by the node that keeps it'
  for (const [index, recordKey] of keys.entries()) {
    if (heard.some(({ sightings }) => sightings[index] === 'damaged'))
      events.publish({ kind: 'outcome_damaged', recordKey, reason })
  }
}

function sightingsAt(heard: readonly Heard[], index: number): readonly Sighting[] {
  return heard.flatMap(({ sightings }) => intact(sightings[index]))
}

function intact(seen: Sighting | 'damaged' | undefined): readonly Sighting[] {
  return seen === undefined || seen === 'damaged' ? [] : [seen]
}

function accepted(seen: { readonly record: NodeRecord } | 'damaged' | undefined): number | undefined {
  return seen !== undefined && seen !== 'damaged' && seen.record.state === 'completed'
    ? seen.record.acceptedToken
    : undefined
}

/** What the node has already it need not be told: one that kept most of its memory is told little. */
function isKnown(own: Sighting | 'damaged' | undefined, { record: theirs, ttlMs }: Merged): boolean {
  // What it can't read it can't adopt either.
  if (own === undefined || own === 'damaged') return own === 'damaged'
  const { record } = own
  if (record.state === 'claimed' || record.state !== theirs.state) return false
  if (record.fence !== theirs.fence || own.ttlMs < ttlMs) return false
  if (record.state !== 'completed' || theirs.state !== 'completed') return true
  return record.acceptedToken === theirs.acceptedToken && record.copied === theirs.copied
}

/**
 * Enrols all nodes of a brand-new cluster at once, where all of them are there and let themselves be claimed.
 * A founder that dies between its first epoch and its last leaves a cluster that only a declared loss gets going.
 */
export async function foundCluster(
  nodes: readonly EnrolmentNode[],
  of: Omit<Cluster, 'id'>,
  random: Random,
): Promise<boolean> {
  const nonce = random.hex(16)
  const claims = await Promise.allSettled(nodes.map((node) => node.claimFounding(nonce)))
  if (!claims.every((claim) => claim.status === 'fulfilled' && claim.value)) {
    await Promise.allSettled(nodes.map((node) => node.abandonFounding(nonce)))
    return false
  }
  const cluster: Cluster = { ...of, id: random.hex(8) }
  const founded = await Promise.allSettled(nodes.map((node) => node.found(nonce, cluster)))
  return founded.every((one) => one.status === 'fulfilled' && one.value)
}
