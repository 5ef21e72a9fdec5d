/**
 * The line of those who wait for one record, as one node keeps it.
 *
 * Every process that has waiters stands in it with the numbers of its first and its last; whoever comes draws a number
 * above every one that a majority of the nodes shows, so that of two that came one after the other the first has the
 * smaller one, whatever their clocks say. A process that says nothing for a while is gone, and so are its numbers.
 *
 * Owns what one node does with what a process says of itself, as a pure function; `redis/lua/line.lua` is the same on
 * Redis. A line only orders claims. It grants nothing: a node that forgets it costs fairness and no promise.
 *
 * Source: L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem" (CACM 17, 1974): the bakery.
 */

/** How a process stands in a line: all of it, each time. */
export type Standing = {
  /** 16 hexadecimal digits. Of two that drew the same number the smaller name is first. */
  readonly process: string
  /** Its smallest and its largest number; 0 where it has none. */
  readonly first: number
  readonly last: number
  /** How many have come since and have no number yet. With none at all it leaves. */
  readonly draws: number
  /** Who has a number up to this one needs no turn any more. */
  readonly openTo: number
  /** How long it stands there without being heard of again. */
  readonly aliveMs: number
}

export type LineAnswer = {
  /** The largest number that was drawn before: new ones lie above. */
  readonly highest: number
  /** Who of the other processes is first; undefined where nobody else stands here. */
  readonly ahead: { readonly number: number; readonly process: string } | undefined
  readonly openTo: number
  readonly nodeMs: number
}

type Place = { readonly first: number; readonly last: number; readonly untilNodeMs: number }

export type Line = { readonly openTo: number; readonly places: ReadonlyMap<string, Place> }

/** No process stays for longer unheard: beyond, the node's clock was set back since. */
export const ALIVE_MAX_MS = 60_000

/** @param line undefined where nobody stands; so is the one returned */
export function standIn(
  line: Line | undefined,
  { process, first, last, draws, openTo: opened, aliveMs }: Standing,
  nodeMs: number,
): { readonly line: Line | undefined; readonly answer: LineAnswer } {
  const alive = [...(line?.places ?? [])].filter(
    ([, { untilNodeMs }]) => untilNodeMs > nodeMs && untilNodeMs <= nodeMs + ALIVE_MAX_MS,
  )
  const others = alive.filter(([name]) => name !== process)
  // With the last one who stood there the line has ended, and this is another one.
  const openTo = Math.max(opened, alive.length > 0 && line !== undefined ? line.openTo : 0)
  const highest = Math.max(openTo, last, ...others.map(([, place]) => place.last))
  let ahead: LineAnswer['ahead']
  for (const [name, place] of others) {
    const one = { number: place.first, process: name }
    if (ahead === undefined || isBefore(one, ahead)) ahead = one
  }
  const places = new Map(others)
  if (last > 0 || draws > 0) {
    const own = { first: first || highest + 1, last: draws > 0 ? highest + draws : last }
    places.set(process, { ...own, untilNodeMs: nodeMs + Math.min(aliveMs, ALIVE_MAX_MS) })
  }
  return {
    line: places.size === 0 ? undefined : { openTo, places },
    answer: { highest, ahead, openTo, nodeMs },
  }
}

type Numbered = { readonly number: number; readonly process: string }

export function isBefore(one: Numbered, other: Numbered): boolean {
  return one.number < other.number || (one.number === other.number && one.process < other.process)
}

/** The lines on all nodes. */
export interface Lines {
  readonly nodeCount: number
  /** Tells every node how this process stands; the answers of those that gave one in time. Never rejects. */
  stand(key: string, standing: Standing): Promise<readonly LineAnswer[]>
}
