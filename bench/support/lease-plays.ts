/** What is done with two holders of one lease, and the rows of the table that it fills. Each play has five fresh nodes. */
import { setTimeout as pause } from 'node:timers/promises'
import type { RedisServers } from '../../test/support/redis-servers.ts'
import type { Holder, Holders } from './lease-holders.ts'

export type Play = {
  readonly rows: readonly string[]
  /** The cells of these rows; `undefined` where there is no program. */
  readonly run: (holders: Holders, nodes: RedisServers) => Promise<readonly string[] | undefined>
}

const LEASE_MS = 30_000
const SHORT_MS = 3_000
/** How long two nodes stay down after a lock was acquired without them. */
const DOWN_MS = 3_000
const acquire = `acquire payment-4711 ${LEASE_MS}`

async function pair(holders: Holders): Promise<readonly [Holder, Holder] | undefined> {
  const [first, second] = [await holders.open(), await holders.open()]
  return first === undefined || second === undefined ? undefined : [first, second]
}

export const ordinary: Play = {
  rows: [
    'acquire, all five nodes there',
    'another one acquires meanwhile',
    'what stands, read by the other one',
    'extend',
    'release; then another one acquires',
    'fencing token, and that of the next holder',
  ],
  run: async (holders) => {
    const both = await pair(holders)
    if (both === undefined) return undefined
    const [first, second] = both
    const held = await first.ask(acquire)
    const token = await first.ask('token')
    const meanwhile = await second.ask(acquire)
    const read = await second.ask('read payment-4711')
    const extended = await first.ask(`extend ${LEASE_MS}`)
    const released = await first.ask('release')
    // One that was taken twice is released twice.
    const again = /hold counts 2/.test(extended) ? `, twice: ${await first.ask('release')}` : ''
    const next = await second.ask(acquire)
    const tokens = compared(token, await second.ask('token'))
    return [held, meanwhile, read, extended, `${released}${again}; ${next}`, tokens]
  },
}

function compared(first: string, second: string): string {
  const grows = Number(second) > Number(first)
  return /^\d+$/.test(first) ? `a number; the next one is ${grows ? 'larger' : '**not larger**'}` : first
}

export const worked: Play = {
  rows: ['the work is done; a duplicate comes'],
  run: async (holders) => {
    const both = await pair(holders)
    if (both === undefined) return undefined
    const [first, second] = both
    await first.ask(acquire)
    const done = await first.ask('done')
    return [`${done}; ${again(await second.ask(acquire))}`]
  },
}

const again = (told: string) => (told === 'held' ? '**held: it is done again**' : told)

export const suspended: Play = {
  rows: [
    'the holder is suspended until another one holds; it believes',
    'it extends',
    'it records its late outcome',
    'it releases',
    'after all that the other one extends',
  ],
  run: async (holders) => {
    const both = await pair(holders)
    if (both === undefined) return undefined
    const [first, second] = both
    await first.ask(`acquire payment-4711 ${SHORT_MS}`)
    first.suspend()
    try {
      while ((await second.ask(acquire)) !== 'held') await pause(200)
    } finally {
      first.resume()
    }
    const late: string[] = []
    for (const line of ['believes', `extend ${LEASE_MS}`, 'late', 'release']) late.push(await first.ask(line))
    return [...late, await second.ask(`extend ${LEASE_MS}`)]
  },
}

export const slow: Play = {
  rows: ['all nodes answer only after the lease of 3 s is over: acquire'],
  run: async (holders, nodes) => {
    const holder = await holders.open()
    if (holder === undefined) return undefined
    // Connected before.
    await holder.ask(`acquire another ${SHORT_MS}`)
    const all = [0, 1, 2, 3, 4]
    for (const index of all) nodes.pause(index)
    const acquired = holder.ask(`acquire payment-4711 ${SHORT_MS}`)
    await Promise.race([acquired, pause(SHORT_MS + 1_000)])
    for (const index of all) nodes.resume(index)
    const told = await acquired
    return [told === 'held' ? `held; it believes: ${await holder.ask('believes')}` : told]
  },
}

export const forgetting: Play = {
  rows: ['one of five that granted comes back empty; another one acquires'],
  run: async (holders, nodes) => {
    const first = await holders.open()
    if (first === undefined) return undefined
    await first.ask(acquire)
    await restartEmpty(nodes, 2)
    return [twice(await otherAfter(holders))]
  },
}

export const forgettingAmongDown: Play = {
  rows: [
    'two of five nodes are down: acquire',
    'one of the three others comes back empty, and the two with their data; another one acquires',
  ],
  run: async (holders, nodes) => {
    const first = await holders.open()
    if (first === undefined) return undefined
    await nodes.kill(3)
    await nodes.kill(4)
    const held = await first.ask(acquire)
    // A client may keep its command for a node that is down; by then it has given that up.
    await pause(DOWN_MS)
    await restartEmpty(nodes, 2)
    await nodes.start(3)
    await nodes.start(4)
    return [held, held === 'held' ? twice(await otherAfter(holders)) : 'nobody holds it']
  },
}

export const outage: Play = {
  rows: ['three of five nodes are down: acquire'],
  run: async (holders, nodes) => {
    const holder = await holders.open()
    if (holder === undefined) return undefined
    for (const index of [2, 3, 4]) await nodes.kill(index)
    return [await holder.ask(acquire)]
  },
}

/** Its connections are new, so that it reaches the node that was started again. */
async function otherAfter(holders: Holders): Promise<string> {
  return (await holders.open())?.ask(acquire) ?? 'no program'
}

async function restartEmpty(nodes: RedisServers, index: number): Promise<void> {
  await nodes.kill(index)
  await nodes.start(index, { emptied: true })
}

const twice = (told: string) => (told === 'held' ? '**held: two holders at once**' : told)

/** In the order of the table. */
export const PLAYS: readonly Play[] = [
  ordinary,
  worked,
  suspended,
  slow,
  outage,
  forgetting,
  forgettingAmongDown,
]
