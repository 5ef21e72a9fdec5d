/**
 * What a route chose for a lost quorum is for that alone, with real nodes: while they vote and one request can't be claimed, it is refused.
 *
 * Bug: any claim without a majority counted as a lost quorum. With `local` and `fail-open` a request was executed again that the nodes showed
 * as begun or as recorded, and while they were full each sidecar executed it for itself.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, test } from 'vitest'
import { compileClockShim, ShiftedClock } from '../faults/clock-shim.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const POLICIES = ['local', 'fail-open'] as const

/** Five nodes whose clocks stand at these milliseconds beside ours, an application, and the settings of a sidecar. */
async function scene(policy: (typeof POLICIES)[number], clocksMs: readonly number[]) {
  const stack = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-not-lost-'))
  stack.defer(() => rmSync(folder, { recursive: true }))
  const shim = compileClockShim(folder)
  const clocks = clocksMs.map((ms, at) => {
    const clock = new ShiftedClock(shim, folder, `node-${at}`)
    clock.set(ms)
    return clock
  })
  const servers = stack.use(await startRedisServers(5, { founded: true, env: (at) => clocks[at]!.env }))
  const application = stack.use(await startCountingApplication())
  const env = { ...PATIENT, ...between(servers, application), FENCEPOST_ON_QUORUM_LOSS: policy }
  return { servers, application, env, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

const pay = ({ proxy }: Sidecar) =>
  fetch(`${proxy}/payments`, { method: 'POST', headers: { 'Idempotency-Key': 'order-1' }, body: '{}' })

async function refusedFor(answer: Response): Promise<unknown> {
  const { code, detail } = (await answer.json()) as { code: string; detail: string }
  return [answer.status, code, detail]
}
const REFUSED = [503, 'quorum-unavailable', expect.stringContaining('more are well')]

test.each(POLICIES)(
  '%s: an attempt of which it is not sure that it has ended is not begun beside',
  async (policy) => {
    await using played = await scene(policy, [-160, -80, 0, 80, 160])
    const { application } = played
    const env = { ...played.env, FENCEPOST_LEASE: '10s', FENCEPOST_NODE_DEADLINE: '500ms' }
    await using first = await startSidecar(env)
    application.hold()
    const lost = pay(first).catch(() => undefined)
    await application.arrived(1)
    await first.process.end({ signal: 'SIGKILL' })
    await lost
    application.letGo()
    await using next = await startSidecar(env)
    const answer = await eventually('the lease to be over by some clocks', async () => {
      const one = await pay(next)
      return one.status === 409 ? undefined : one
    })
    expect(await refusedFor(answer)).toEqual(REFUSED)
    expect(application.of('order-1').map(({ attempt }) => attempt)).toEqual([1])
  },
)

test.each(POLICIES)(
  '%s: a recorded request is not executed while claims are refused for the clocks',
  async (policy) => {
    await using played = await scene(policy, [200, 200, 200, 200, 200])
    const { application, env } = played
    await using first = await startSidecar(env)
    await using next = await startSidecar({ ...env, FENCEPOST_CLOCK_ENFORCE: 'on' })
    await eventually(
      'the clocks to be found apart',
      async () => (await fetch(`${next.admin}/readyz`)).status === 503,
    )
    expect((await pay(first)).status).toBe(201)
    expect(await refusedFor(await pay(next))).toEqual(REFUSED)
    expect(application.executions).toHaveLength(1)
  },
)

test.each(POLICIES)('%s: nothing new is begun while the nodes are full', async (policy) => {
  await using played = await scene(policy, [0, 0, 0, 0, 0])
  const { servers, application, env } = played
  await using sidecar = await startSidecar(env)
  for (const url of servers.urls) {
    const node = new Redis(url)
    await node.config('SET', 'maxmemory', '1')
    node.disconnect()
  }
  expect(await refusedFor(await pay(sidecar))).toEqual(REFUSED)
  expect(application.executions).toHaveLength(0)
})
