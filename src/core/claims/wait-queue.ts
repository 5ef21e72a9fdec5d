/**
 * The queue of waiters for one record, as one node keeps it.
 *
 * Every process with waiters has one entry with the numbers of its first and its last. A newcomer draws a number above
 * every one that a majority of the nodes shows, so that the earlier of two has the smaller number, whatever their
 * clocks say. A process that does not update its entry for a while is gone, and so are its numbers.
 *
 * Owns what one node does with an entry, as a pure function; `redis/lua/queue.lua` is the same on Redis. A queue only
 * orders claims. It grants nothing: a node that forgets it costs fairness and no promise.
 *
 * Source: L. Lamport, "A New Solution of Dijkstra's Concurrent Programming Problem" (CACM 17, 1974): the bakery.
 */

/** A process's waiters: the whole entry, each time. */
export type QueueEntry = {
  /** 16 hexadecimal digits. Of two with the same number the smaller name is first. */
  readonly process: string
  /** Its smallest and its largest number; 0 where it has none. */
  readonly first: number
  readonly last: number
  /** How many newcomers have no number yet. An entry without waiters leaves. */
  readonly draws: number
  /** Waiters with a number up to this one need not wait any more. */
  readonly openTo: number
  /** How long the entry stays without an update. */
  readonly aliveMs: number
}

export type QueueReply = {
  /** The largest number drawn before: new ones lie above. */
  readonly highest: number
  /** The first of the other processes; undefined where no other one waits here. */
  readonly ahead: { readonly number: number; readonly process: string } | undefined
  readonly openTo: number
  readonly nodeMs: number
}

type Slot = { readonly first: number; readonly last: number; readonly untilNodeMs: number }

export type WaitQueue = { readonly openTo: number; readonly slots: ReadonlyMap<string, Slot> }

/** No entry stays for longer without an update: beyond, the node's clock was set back. */
export const ALIVE_MAX_MS = 60_000

/** @param queue undefined where no process waits; so is the one returned */
export function updateEntry(
  queue: WaitQueue | undefined,
  { process, first, last, draws, openTo: opened, aliveMs }: QueueEntry,
  nodeMs: number,
): { readonly queue: WaitQueue | undefined; readonly reply: QueueReply } {
  const alive = [...(queue?.slots ?? [])].filter(
    ([, { untilNodeMs }]) => untilNodeMs > nodeMs && untilNodeMs <= nodeMs + ALIVE_MAX_MS,
  )
  const others = alive.filter(([name]) => name !== process)
  // With its last waiter the old queue ended, and this is a new one.
  const openTo = Math.max(opened, alive.length > 0 && queue !== undefined ? queue.openTo : 0)
  const highest = Math.max(openTo, last, ...others.map(([, slot]) => slot.last))
  let ahead: QueueReply['ahead']
  for (const [name, slot] of others) {
    const one = { number: slot.first, process: name }
    if (ahead === undefined || isBefore(one, ahead)) ahead = one
  }
  const slots = new Map(others)
  if (last > 0 || draws > 0) {
    const own = { first: first || highest + 1, last: draws > 0 ? highest + draws : last }
    slots.set(process, { ...own, untilNodeMs: nodeMs + Math.min(aliveMs, ALIVE_MAX_MS) })
  }
  return {
    queue: slots.size === 0 ? undefined : { openTo, slots },
    reply: { highest, ahead, openTo, nodeMs },
  }
}

type Numbered = { readonly number: number; readonly process: string }

export function isBefore(one: Numbered, other: Numbered): boolean {
  return one.number < other.number || (one.number === other.number && one.process < other.process)
}

/** The queues on all nodes. */
export interface WaitQueues {
  readonly nodeCount: number
  /** Sends the entry of this process to every node; the replies of those that answered in time. Never rejects. */
  update(key: string, entry: QueueEntry): Promise<readonly QueueReply[]>
}
