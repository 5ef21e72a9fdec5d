/**
 * What nodes say of other nodes, and how far that is believed.
 *
 * One node that lies, or one hash that was corrupted, must not take another node's vote. So of what is said of one thing the second
 * largest claim counts: two nodes say at least as much, and one of them is right. What a process has seen itself needs no second
 * witness, and is not kept here.
 */

import type { Membership } from './rejoin-rules.ts'

export type Claim = {
  readonly value: number
  /** Since when it is known. */
  readonly sinceMonoMs: number
}

/** Where there is only one topic. */
export const ANY = ''

/** So many topics one node may speak of; the oldest is dropped. Incarnations of a node are few. */
const TOPICS_MAX = 16

export class Hearsay {
  /** By the node that is spoken of, the node that speaks, and the topic. */
  readonly #claims = new Map<string, Map<string, Map<string, Claim>>>()

  /** Raises what the one says of the other. */
  heard(by: string, about: string, topic: string, value: number, nowMonoMs: number): void {
    if (by === about || !(value > (this.said(by, about, topic) ?? 0))) return
    const speakers = this.#claims.get(about) ?? new Map<string, Map<string, Claim>>()
    const topics = speakers.get(by) ?? new Map<string, Claim>()
    this.#claims.set(about, speakers.set(by, topics.set(topic, { value, sinceMonoMs: nowMonoMs })))
    const [oldest] = topics.size > TOPICS_MAX ? topics.keys() : []
    if (oldest !== undefined) topics.delete(oldest)
  }

  said(by: string, about: string, topic: string): number | undefined {
    return this.#claims.get(about)?.get(by)?.get(topic)?.value
  }

  /** What two nodes say at least, and since when both do. @param atMost what is larger is not possible */
  believed(about: string, topic: string, atMost = Number.POSITIVE_INFINITY): Claim | undefined {
    let [first, second]: (Claim | undefined)[] = []
    for (const topics of this.#claims.get(about)?.values() ?? []) {
      const claim = topics.get(topic)
      if (claim === undefined || !(claim.value <= atMost)) continue
      if (first === undefined || claim.value > first.value) [first, second] = [claim, first]
      else if (second === undefined || claim.value > second.value) second = claim
    }
    if (first === undefined || second === undefined) return undefined
    return { value: second.value, sinceMonoMs: Math.max(first.sinceMonoMs, second.sinceMonoMs) }
  }

  /** Whether another node says more than that, too. */
  isSaidBesides(by: string, about: string, topic: string, moreThan: number): boolean {
    const speakers = [...(this.#claims.get(about) ?? [])]
    return speakers.some(([other, topics]) => other !== by && (topics.get(topic)?.value ?? 0) > moreThan)
  }

  /** What anybody has said of that node. */
  topicsOf(about: string): readonly string[] {
    const topics = new Set<string>()
    for (const said of this.#claims.get(about)?.values() ?? [])
      for (const topic of said.keys()) topics.add(topic)
    return [...topics]
  }

  forget(about: string): void {
    this.#claims.delete(about)
  }

  /** Nothing that this node has said counts any more. */
  disbelieve(by: string): void {
    for (const speakers of this.#claims.values()) speakers.delete(by)
  }
}

/*
 * Two servers under the name of one node (DNS that was changed while the old one ran, a pod that was replaced while its machine was only
 * thought dead): each keeps its promises, and a majority with the one need not meet one with the other. Where two nodes' notes of a name
 * grow on under another incarnation than the one that is seen, the other server lives. History does not grow, and a sidecar that dies
 * or is late leaves a counter a few heartbeats behind. Of two that vote one loses its incarnation; one that waits does not join meanwhile.
 */

/** Notes of a node that has just joined, or just restarted, are still on their way. */
const SETTLED_AFTER_MS = 3_000

/** So many more than were known: some three seconds of the other server's life, and more than anyone is late. */
export const DUPLICATE_HEARTBEATS = 5

/** Twice what five heartbeats take where a node has one a second. Who waits for a node polls it every second. */
const LIVES_FOR_MS = 10_000

/** How often the quarantine of a node begins anew while another server is used under its name. */
export const RESTART_EVERY_MS = 5_000

/** `agoMs`: since it was last seen to have a heartbeat. `lives`: it has the name, or had it a moment ago. */
export type DuplicateServer = { readonly nonce: string; readonly lives: boolean; readonly agoMs: number }

export class DuplicateServers {
  /** By name: the nonce of the rejoin under which it votes, or the run that waits, and since when. */
  readonly #as = new Map<string, { readonly is: string; readonly sinceMonoMs: number }>()
  /** By nonce: the counter when it last proved something, or when it was first known; and when it did. */
  readonly #counters = new Hearsay()
  readonly #signs = new Hearsay()

  /** @param is what it is at this poll */
  saw(name: string, is: string, nowMonoMs: number): void {
    if (this.#as.get(name)?.is === is) return
    this.#as.set(name, { is, sinceMonoMs: nowMonoMs })
    this.#counters.forget(name)
    this.#signs.forget(name)
  }

  /** A node notes that the node of this name has had so many heartbeats in that incarnation. */
  noted(by: string, name: string, nonce: string, counter: number, nowMonoMs: number): void {
    const as = this.#as.get(name)
    if (as === undefined || nonce === as.is) return
    const before = this.#counters.said(by, name, nonce)
    const isSettled = before !== undefined && nowMonoMs - as.sinceMonoMs >= SETTLED_AFTER_MS
    if (isSettled && counter < before + DUPLICATE_HEARTBEATS) return
    this.#counters.heard(by, name, nonce, counter, nowMonoMs)
    if (isSettled) this.#signs.heard(by, name, nonce, nowMonoMs, nowMonoMs)
  }

  /** The other server that has this name, or had it; undefined where none was seen. */
  of(name: string, nowMonoMs: number): DuplicateServer | undefined {
    const signs = this.#signs.topicsOf(name).flatMap((nonce) => {
      const sign = this.#signs.believed(name, nonce)
      if (sign === undefined) return []
      const agoMs = nowMonoMs - sign.value
      return [{ nonce, agoMs, lives: agoMs < LIVES_FOR_MS }]
    })
    return signs.sort((one, other) => one.agoMs - other.agoMs)[0]
  }

  forget(name: string): void {
    this.#signs.forget(name)
  }

  disbelieve(by: string): void {
    this.#counters.disbelieve(by)
    this.#signs.disbelieve(by)
  }
}

/** Whether sidecars saw the other server a moment ago, as a node that waits shows it to whoever has not watched. */
export function showsDuplicate({ quarantine, nodeMs }: Pick<Membership, 'quarantine' | 'nodeMs'>): boolean {
  return quarantine?.duplicateServer === true && nodeMs - quarantine.sinceNodeMs < LIVES_FOR_MS
}

/**
 * Whether the quarantine of a node that has waited for so long began after the last promise of the other server: whichever
 * sidecar began it anew, the others need not do so again.
 */
export function hasOutlived({ agoMs }: DuplicateServer, waitedMs: number): boolean {
  return agoMs - waitedMs >= LIVES_FOR_MS
}

/** Both servers vote, and sidecars on either side know both incarnations: each of them names the same one. */
export function yieldsTo(nonce: string, other: string): boolean {
  return nonce < other
}
