/**
 * What nodes say of other nodes, and how far that is believed.
 *
 * One node that lies, or one hash that was corrupted, must not take another node's vote. So of what is said of one thing the second
 * largest claim counts: two nodes say at least as much, and one of them is right. What a process has seen itself needs no second
 * witness, and is not kept here.
 */

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
