/**
 * A program: which share of what came and went is still in memory, while only young objects are collected.
 *
 *     node test/support/what-stays.ts NAME
 *
 * A process of its own, because V8 tells it by the size of the heap alone: its weak references hold as long as strong ones until a full
 * collection. So each item has a weight.
 */
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import type { Command, Redis } from 'ioredis'
import { ShortLivedMap } from '../../src/core/short-lived.ts'
import { callBatch } from '../../src/redis/batch.ts'
import { systemClock } from '../../src/system/clock.ts'
import { exchange } from '../../src/upstream/exchange.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as (options?: { readonly type: 'minor' }) => void

const ITEMS = 4_000
/** So many come between two collections: what is under way meanwhile is less, and outlives one of them at most. */
const COLLECTED_EVERY = 100
const UNDER_WAY = 32
const WEIGHT_SLOTS = 500
/** 16 MB in all: mostly too little for V8 to collect everything by itself, which would hide what stays and never invents it. */
const WEIGHT_BYTES = ITEMS * WEIGHT_SLOTS * 8

type Pass = () => void

const passes: Readonly<Record<string, () => Pass>> = {
  /** About 1 where V8 does not collect everything meanwhile: as long as it says so, `ShortLivedMap` is needed. */
  Map: () => throughMap(new Map()),
  ShortLivedMap: () => throughMap(new ShortLivedMap()),
  exchange: () => () => {
    const { signal } = new AbortController()
    const dispatcher = {
      dispatch: (_: unknown, handler: { onResponseEnd(): void }) => {
        handler.onResponseEnd()
        return true
      },
    }
    const options = { answerWithinMs: 60_000, clock: systemClock, signal: Object.assign(signal, weight()) }
    void exchange(dispatcher as never, { method: 'GET', target: '/', headers: [] } as never, options)
  },
  callBatch: () => () => {
    const client = {
      sendCommand: (command: Command) => {
        command.resolve(weight())
        return command.promise
      },
    }
    const script = { source: '', sha1: '' }
    const batch = { incarnation: 'e', maxTokenAheadMs: 0, frames: [] }
    // The reply is none of a node.
    callBatch(client as unknown as Redis, script, batch).catch(() => {})
  },
}

function weight(): { readonly weight: readonly number[] } {
  return { weight: new Array<number>(WEIGHT_SLOTS).fill(0) }
}

type Held = ReturnType<typeof weight>

function throughMap(map: { set(key: number, held: Held): unknown; delete(key: number): unknown }): Pass {
  let next = 0
  for (; next < UNDER_WAY; next += 1) map.set(next, weight())
  return () => {
    map.set(next, weight())
    map.delete(next - UNDER_WAY)
    next += 1
  }
}

async function shareThatStays(pass: Pass): Promise<number> {
  // What stands now is old after it.
  collect()
  const before = process.memoryUsage().heapUsed
  for (let item = 0; item < ITEMS; item += 1) {
    pass()
    if (item % COLLECTED_EVERY !== 0) continue
    await turn()
    collect({ type: 'minor' })
  }
  await turn()
  for (let times = 0; times < 2; times += 1) collect({ type: 'minor' })
  return (process.memoryUsage().heapUsed - before) / WEIGHT_BYTES
}

const [name = ''] = process.argv.slice(2)
const begin = passes[name]
if (begin === undefined)
  throw new Error(`the argument is one of ${Object.keys(passes).join(', ')}, not ${name}`)
console.log(await shareThatStays(begin()))
