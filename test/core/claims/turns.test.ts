// Waiting in turn, over five nodes under a clock of the test: order, what opens a line, and what happens to it by faults.
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Line, type Lines, standIn } from '../../../src/core/claims/line.ts'
import { ALIVE_MS, createTurns, type Turn } from '../../../src/core/claims/turns.ts'
import { pause } from '../../../src/core/retry.ts'
import { seededRandom, seedOfRun } from '../../support/seeded-random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEY = 'dedup:t:e:v:lock:k'

/** Five nodes that answer after a moment, as many processes as a test wants, and who can be cut off from whom. */
function world(seed = 1) {
  const clock = new VirtualClock()
  const random = seededRandom(seed)
  const nodes = Array.from({ length: 5 }, () => ({ lines: new Map<string, Line>(), deaf: false }))
  let looks = 0
  const processOf = (reaches = (_node: number) => true) => {
    let alive = true
    const lines: Lines = {
      nodeCount: nodes.length,
      stand: async (key, standing) => {
        looks += 1
        await pause(clock, 1 + random.fraction())
        // A process that died asks nothing more, and hears nothing.
        if (!alive) return new Promise<never>(() => {})
        return nodes.flatMap((node, index) => {
          if (node.deaf || !reaches(index)) return []
          const { line, answer } = standIn(node.lines.get(key), standing, Math.floor(clock.wallMs()))
          if (line === undefined) node.lines.delete(key)
          else node.lines.set(key, line)
          return [answer]
        })
      },
    }
    return {
      ...createTurns({ lines, clock, random }),
      die: () => {
        alive = false
      },
    }
  }
  return { clock, random, nodes, processOf, looks: () => looks }
}

/** Waits its turn, notes it, and leaves when the test says so. */
function waiter(name: string, turn: Turn, order: string[]) {
  const done = turn.comes().then(() => {
    order.push(turn.come ? name : `${name} at random`)
  })
  return { done, leave: () => turn[Symbol.dispose]() }
}

test('waiters of two processes have their turn in the order in which they came', async () => {
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
  expect(nodes.every(({ lines }) => lines.size === 0)).toBe(true)
  expect([one.waiting(KEY), other.waiting(KEY)]).toEqual([false, false])
})

test('all waiters of a process ask together, and seldom while it is their turn', async () => {
  const { clock, processOf, looks } = world()
  const one = processOf()
  const waiters = Array.from({ length: 50 }, (_, n) => waiter(String(n), one.enter(KEY), []))
  await clock.advance(4_000)
  expect(looks()).toBeLessThan(20)
  for (const { leave } of waiters) leave()
  await clock.advance(10)
})

test('who leaves the line before its turn is not waited for', async () => {
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

test('opened: everybody who stands there may go, in all processes; whoever comes later waits', async () => {
  const { clock, processOf } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const turn = one.enter(KEY)
  await clock.advance(10)
  const others = ['2', '3', '4'].map((name) => waiter(name, other.enter(KEY), order))
  await clock.advance(50)
  expect(order).toEqual([])
  turn.open()
  turn[Symbol.dispose]()
  await clock.during(Promise.all(others.map(({ done }) => done)), 300)
  expect(order).toEqual(['2', '3', '4'])
  const late = waiter('late', one.enter(KEY), order)
  await clock.advance(500)
  expect(order).toEqual(['2', '3', '4'])
  for (const { leave } of others) leave()
  await clock.during(late.done, 300)
  expect(order).toEqual(['2', '3', '4', 'late'])
})

test('a process that dies at the head of the line keeps the others for as long as it counts as alive', async () => {
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

test('two nodes of five away: the order is kept; three: everybody tries for itself, and takes turns again afterwards', async () => {
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

test('nodes that forget the line, one after the other, cost nobody its turn', async () => {
  const { clock, processOf, nodes } = world()
  const [one, other] = [processOf(), processOf()]
  const order: string[] = []
  const first = waiter('1', one.enter(KEY), order)
  await clock.advance(10)
  const second = waiter('2', other.enter(KEY), order)
  await clock.advance(10)
  for (const node of nodes) {
    node.lines.clear()
    await clock.advance(50)
  }
  await clock.during(first.done)
  first.leave()
  await clock.during(second.done, 200)
  expect(order).toEqual(['1', '2'])
})

test('whatever comes and goes, dies and is cut off: everybody who lives has its turn', async () => {
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
      let standing: { process: number; turn: Turn; had: boolean }[] = []
      for (const { kind, process, at, afterMs } of happenings) {
        await clock.advance(afterMs)
        const one = standing[at % Math.max(1, standing.length)]
        const node = nodes[at % 5]!
        if (kind === 'enter' && !dead.has(process)) {
          const entered = { process, turn: processes[process]!.enter(KEY), had: false }
          standing.push(entered)
        }
        if (kind === 'leave' && one !== undefined) {
          one.turn[Symbol.dispose]()
          standing = standing.filter((other) => other !== one)
        }
        if (kind === 'open') one?.turn.open()
        if (kind === 'deafen') node.deaf = true
        if (kind === 'hear') node.deaf = false
        if (kind === 'forget') node.lines.clear()
        if (kind === 'die' && process !== 0) {
          processes[process]!.die()
          dead.add(process)
        }
      }
      for (const node of nodes) node.deaf = false
      const living = standing.filter(({ process }) => !dead.has(process))
      const all = Promise.all(
        living.map(async ({ turn }) => {
          await turn.comes()
          turn[Symbol.dispose]()
        }),
      )
      await clock.during(all, ALIVE_MS + 1_000 + living.length * 200)
    }),
    { seed, numRuns: 150 },
  )
})
