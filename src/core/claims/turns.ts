/**
 * Lets those who wait for one record claim it one after the other, in the order in which they came, over all sidecars.
 *
 *   enter → (not known yet) → waiting → first: claims, again and again → leave
 *                                └─ order not known (too few nodes): claims as everybody does
 *
 * Owns the waiters of this process, one line a key, and the asking of the nodes: once for all waiters of a key, and soon
 * again while somebody else is first. Nothing rests on it: whoever believes that it is its turn claims, and the claim
 * decides. A process that died stands in the way until it is not heard of for {@link ALIVE_MS}; with fewer nodes than a
 * majority nobody waits for a turn.
 */

import type { Clock, Random, Timer } from '../ports.ts'
import { majorityOf } from '../units.ts'
import { isBefore, type LineAnswer, type Lines } from './line.ts'

/** How long a process that died, or is cut off, keeps its place. */
export const ALIVE_MS = 2_000

/** Between two looks at a line in which another process is first. Half of it is what a handing-over costs on average. */
const LOOK_EVERY_MS = 30

/** While it is our turn, or the nodes can't be asked: only so that we are heard of. */
const HEARD_EVERY_MS = 400

export type Turn = Disposable & {
  /** Resolves when it is this one's turn, or when nobody can tell. */
  comes(): Promise<void>
  /** It is known to be this one's turn; false: claim as one of many. */
  readonly come: boolean
  /** Resolves when what it waits for was given back in this process. */
  readonly freed: Promise<void>
  /** There is nothing to take turns for any more: everybody who stands here now may ask. */
  open(): void
}

export type Turns = {
  /** Whether somebody of this process waits for it: then whoever comes goes behind, and does not claim at once. */
  waiting(key: string): boolean
  /** A place at the end. Disposing leaves it. */
  enter(key: string): Turn
  /** It was given back by this process. */
  freed(key: string): void
}

export type TurnsPorts = { readonly lines: Lines; readonly clock: Clock; readonly random: Random }

/** One who waits. `number` is 0 until it has drawn one. */
type Waiting = { number: number; readonly woken: PromiseWithResolvers<void>[] }

export function createTurns(ports: TurnsPorts): Turns {
  const process = ports.random.hex(8)
  const lines = new Map<string, ReturnType<typeof standIn>>()
  return {
    waiting: (key) => lines.has(key),
    enter: (key) => {
      const line = lines.get(key) ?? standIn(key, process, () => lines.delete(key), ports)
      lines.set(key, line)
      return line.enter()
    },
    freed: (key) => lines.get(key)?.freed(),
  }
}

/** The waiters of this process for one key. @param onEmpty the last of them has left */
function standIn(key: string, process: string, onEmpty: () => void, { lines, clock, random }: TurnsPorts) {
  const needed = majorityOf(lines.nodeCount)
  /** In the order in which they came; those with a number first. */
  const waiting: Waiting[] = []
  let openTo = 0
  /** Everybody who stands there at the next look is to be let go. */
  let opening = false
  /** Of the last look; undefined before the first, and where too few answered. */
  let seen: readonly LineAnswer[] | undefined
  let blind = false
  let asking = false
  let changed = false
  let next: Timer | undefined
  let freed = Promise.withResolvers<void>()

  function isTurnOf(one: Waiting): boolean {
    if (seen === undefined || one.number === 0) return false
    if (one.number <= openTo) return true
    if (one !== waiting[0]) return false
    const own = { number: one.number, process }
    return seen.filter(({ ahead }) => ahead === undefined || isBefore(own, ahead)).length >= needed
  }

  function wake(): void {
    for (const one of waiting)
      if (blind || isTurnOf(one)) for (const { resolve } of one.woken.splice(0)) resolve()
  }

  /** Asks now, or once more where an answer is under way that does not know of the change. */
  function ask(): void {
    changed = true
    if (asking) return
    next?.cancel()
    asking = true
    void look()
  }

  async function look(): Promise<void> {
    while (changed) {
      changed = false
      const drawing = waiting.filter(({ number }) => number === 0)
      const [first = 0, last = 0] = [waiting[0]?.number, waiting.findLast(({ number }) => number > 0)?.number]
      const standing = { process, first, last, draws: drawing.length, openTo, aliveMs: ALIVE_MS }
      const answers = await lines.stand(key, standing)
      blind = answers.length < needed
      seen = blind ? undefined : answers
      if (seen !== undefined) {
        openTo = Math.max(openTo, ...seen.map((answer) => answer.openTo))
        let drawn = Math.max(last, ...seen.map(({ highest }) => highest))
        for (const one of drawing) {
          drawn += 1
          one.number = drawn
        }
        if (opening) {
          openTo = Math.max(openTo, drawn)
          opening = false
          changed = true
        }
      }
      wake()
    }
    asking = false
    if (waiting.length === 0) return
    const atEase = blind || (waiting[0] !== undefined && isTurnOf(waiting[0]))
    const everyMs = (atEase ? HEARD_EVERY_MS : LOOK_EVERY_MS) * (0.75 + random.fraction() / 2)
    next = clock.timer(everyMs, ask)
  }

  function leave(one: Waiting): void {
    const at = waiting.indexOf(one)
    if (at < 0) return
    waiting.splice(at, 1)
    for (const { resolve } of one.woken.splice(0)) resolve()
    if (waiting.length === 0) onEmpty()
    wake()
    ask()
  }

  return {
    enter: (): Turn => {
      const one: Waiting = { number: 0, woken: [] }
      waiting.push(one)
      ask()
      return {
        comes: () => {
          const woken = Promise.withResolvers<void>()
          if (blind || isTurnOf(one)) woken.resolve()
          else one.woken.push(woken)
          return woken.promise
        },
        get come() {
          return isTurnOf(one)
        },
        get freed() {
          return freed.promise
        },
        open: () => {
          openTo = Math.max(openTo, ...waiting.map(({ number }) => number))
          opening = true
          wake()
          ask()
        },
        [Symbol.dispose]: () => leave(one),
      }
    },
    freed: () => {
      freed.resolve()
      freed = Promise.withResolvers()
    },
  }
}
