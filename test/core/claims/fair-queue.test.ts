// Waiting in order over five nodes, on a virtual clock: which waiter is called when, and what faults do to the order.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ALIVE_MS, createFairQueue, type Ticket } from '../../../src/core/claims/fair-queue.ts'
import { updateEntry, type WaitQueue, type WaitQueues } from '../../../src/core/claims/wait-queue.ts'
import { pause } from '../../../src/core/retry.ts'
import { seededRandom, seedOfRun } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEY = 'dedup:t:e:v:lock:k'

/** Five nodes that answer after a moment, and any number of processes, each of which can be cut off from any node. */
function world(seed = 1) {
  const clock = new VirtualClock()
  const random = seededRandom(seed)
  const nodes = Array.from({ length: 5 }, () => ({ queues: new Map<string, WaitQueue>(), deaf: false }))
  let looks = 0
  const processOf = (reaches = (_node: number) => true) => {
    let alive = true
    const waitQueues: WaitQueues = {
      nodeCount: nodes.length,
      update: async (key, entry) => {
        looks += 1
        await pause(clock, 1 + random.fraction())
        // A dead process sends no request and gets no reply.
        if (!alive) return new Promise<never>(() => {})
        return nodes.flatMap((node, index) => {
          if (node.deaf || !reaches(index)) return []
          const { queue, reply } = updateEntry(node.queues.get(key), entry, Math.floor(clock.wallMs()))
          if (queue === undefined) node.queues.delete(key)
          else node.queues.set(key, queue)
          return [reply]
        })
      },
    }
    return {
      ...createFairQueue({ waitQueues, clock, random }),
      die: () => {
        alive = false
      },
    }
  }
  return { clock, random, nodes, processOf, looks: () => looks }
}

/** Waits until it is called, notes that, and leaves when the test says so. */
function waiter(name: string, ticket: Ticket, order: string[]) {
  const done = ticket.untilCalled().then(() => {
    order.push(ticket.called ? name : `${name} at random`)
  })
  return { done, leave: () => ticket[Symbol.dispose]() }
}

test('waiters of two processes are called in the order in which they came', async () => {
  const { clock, processOf, nodes } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const waiters: ReturnType<typeof waiter>[] = []
  for (const [name, at] of [
    ['1', one],
    ['2', other],
    ['3', one],
    ['4', other],
    ['5', other],
    ['6', one],
  ] as const) {
    waiters.push(waiter(name, at.enter(KEY), order))
    await clock.advance(10)
  }
  for (const { done, leave } of waiters) {
    await clock.during(done)
    await clock.advance(200)
    leave()
  }
  expect(order).toEqual(['1', '2', '3', '4', '5', '6'])
  await clock.advance(1_000)
  expect(clock.pendingTimers).toBe(0)
  expect(nodes.every(({ queues }) => queues.size === 0)).toBe(true)
  expect([one.isWaitedFor(KEY), other.isWaitedFor(KEY)]).toEqual([false, false])
})

test('all waiters of a process share one poll of the nodes, which is rare while one of them is first', async () => {
  const { clock, processOf, looks } = world()
  const one = processOf()
  const waiters = Array.from({ length: 50 }, (_, n) => waiter(String(n), one.enter(KEY), []))
  await clock.advance(4_000)
  expect(looks()).toBeLessThan(20)
  for (const { leave } of waiters) leave()
  await clock.advance(10)
})

test('a waiter that leaves the queue before it is called is not waited for', async () => {
  const { clock, processOf } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const first = waiter('1', one.enter(KEY), order)
  await clock.advance(10)
  const second = waiter('2', other.enter(KEY), order)
  const third = waiter('3', one.enter(KEY), order)
  await clock.advance(10)
  second.leave()
  first.leave()
  await clock.during(third.done, 200)
  expect(order.at(-1)).toBe('3')
})

test('callAll calls every waiter of every process; a later arrival waits', async () => {
  const { clock, processOf } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const ticket = one.enter(KEY)
  await clock.advance(10)
  const others = ['2', '3', '4'].map((name) => waiter(name, other.enter(KEY), order))
  await clock.advance(50)
  expect(order).toEqual([])
  ticket.callAll()
  ticket[Symbol.dispose]()
  await clock.during(Promise.all(others.map(({ done }) => done)), 300)
  expect(order).toEqual(['2', '3', '4'])
  const late = waiter('late', one.enter(KEY), order)
  await clock.advance(500)
  expect(order).toEqual(['2', '3', '4'])
  for (const { leave } of others) leave()
  await clock.during(late.done, 300)
  expect(order).toEqual(['2', '3', '4', 'late'])
})

test('a process that dies while it is first delays the others until its entry expires', async () => {
  const { clock, processOf } = world()
  const [doomed, other] = [processOf(), processOf()]
  const order: string[] = []
  doomed.enter(KEY)
  await clock.advance(10)
  const next = waiter('next', other.enter(KEY), order)
  await clock.advance(10)
  doomed.die()
  await clock.during(next.done, ALIVE_MS + 100)
  expect(order).toEqual(['next'])
})

test('two nodes of five away keep the order; three away let waiters try at random until they are back', async () => {
  const { clock, processOf, nodes } = world()
  const [one, other] = [processOf(), processOf()]
  for (const index of [0, 3]) nodes[index]!.deaf = true
  const order: string[] = []
  const first = waiter('1', one.enter(KEY), order)
  await clock.advance(10)
  const second = waiter('2', other.enter(KEY), order)
  await clock.advance(300)
  expect(order).toEqual(['1'])
  nodes[4]!.deaf = true
  await clock.during(second.done, 100)
  expect(order).toEqual(['1', '2 at random'])
  for (const node of nodes) node.deaf = false
  await clock.advance(600)
  const third = waiter('3', one.enter(KEY), order)
  await clock.advance(500)
  expect(order).toEqual(['1', '2 at random'])
  first.leave()
  second.leave()
  await clock.during(third.done, 200)
  expect(order.at(-1)).toBe('3')
})

test('a queue that the nodes forget one after the other costs no waiter its slot', async () => {
  const { clock, processOf, nodes } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const first = waiter('1', one.enter(KEY), order)
  await clock.advance(10)
  const second = waiter('2', other.enter(KEY), order)
  await clock.advance(10)
  for (const node of nodes) {
    node.queues.clear()
    await clock.advance(50)
  }
  await clock.during(first.done)
  first.leave()
  await clock.during(second.done, 200)
  expect(order).toEqual(['1', '2'])
})

test('every waiter of a living process is called, whichever others enter, leave, die and are cut off', async () => {
  const seed = seedOfRun('turns')
  const happening = fc.record({
    kind: fc.constantFrom('enter', 'enter', 'enter', 'leave', 'deafen', 'hear', 'forget', 'die', 'open'),
    process: fc.nat(2),
    at: fc.nat(7),
    afterMs: fc.nat(60),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(happening, { maxLength: 40 }), fc.nat(), async (happenings, dice) => {
      const { clock, processOf, nodes } = world(dice)
      const processes = [processOf(), processOf((node) => node !== 0), processOf((node) => node !== 1)]
      const dead = new Set<number>()
      let standing: { process: number; ticket: Ticket; had: boolean }[] = []
      for (const { kind, process, at, afterMs } of happenings) {
        await clock.advance(afterMs)
        const one = standing[at % Math.max(1, standing.length)]
        const node = nodes[at % 5]!
        if (kind === 'enter' && !dead.has(process)) {
          const entered = { process, ticket: processes[process]!.enter(KEY), had: false }
          standing.push(entered)
        }
        if (kind === 'leave' && one !== undefined) {
          one.ticket[Symbol.dispose]()
          standing = standing.filter((other) => other !== one)
        }
        if (kind === 'open') one?.ticket.callAll()
        if (kind === 'deafen') node.deaf = true
        if (kind === 'hear') node.deaf = false
        if (kind === 'forget') node.queues.clear()
        if (kind === 'die' && process !== 0) {
          processes[process]!.die()
          dead.add(process)
        }
      }
      for (const node of nodes) node.deaf = false
      const living = standing.filter(({ process }) => !dead.has(process))
      const all = Promise.all(
        living.map(async ({ ticket }) => {
          await ticket.untilCalled()
          ticket[Symbol.dispose]()
        }),
      )
      await clock.during(all, ALIVE_MS + 1_000 + living.length * 200)
    }),
    { seed, numRuns: 150 },
  )
})
