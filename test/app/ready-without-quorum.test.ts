/**
 * Which pods stay in their Service while the quorum is lost, with real nodes.
 *
 * Bug: each pod became unready, also where `onQuorumLoss: fail-open` was to keep requests going. A Service sends nothing to an unready pod,
 * so no request reached it.
 */
import { beforeAll, expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const CASES: readonly [settings: Record<string, string>, ready: number, post: number][] = [
  [{}, 503, 503],
  [{ FENCEPOST_ON_QUORUM_LOSS: 'fail-open' }, 200, 201],
  [{ FENCEPOST_ON_QUORUM_LOSS: 'local' }, 200, 201],
  [{ FENCEPOST_READINESS_QUORUM_GATE: 'report' }, 200, 503],
  [{ FENCEPOST_ON_QUORUM_LOSS: 'fail-open', FENCEPOST_READINESS_QUORUM_GATE: 'enforce' }, 503, 201],
]

const stack = stackOfTests()
const sidecars: Sidecar[] = []

beforeAll(async () => {
  const servers = stack.use(await startRedisServers(3, { founded: true }))
  const application = stack.use(await startCountingApplication())
  for (const [settings] of CASES)
    sidecars.push(
      stack.use(await startSidecar({ ...between(servers, application), ...PATIENT, ...settings })),
    )
  for (const sidecar of sidecars) expect((await fetch(`${sidecar.admin}/readyz`)).status).toBe(200)
  for (const index of [0, 1]) {
    servers.pause(index)
    stack.defer(() => servers.resume(index))
  }
})

test.each(CASES.map((row, at) => [...row, at] as const))(
  '%j: /readyz %i, a POST %i',
  async (_, ready, post, at) => {
    const { admin, proxy } = sidecars[at]!
    const reason = await eventually('the quorum to be missed', async () => {
      const answer = await fetch(`${admin}/readyz`)
      const { reasons } = (await answer.json()) as { reasons: readonly string[] }
      const found = reasons.find((one) => one.startsWith('1 of 3 nodes can vote'))
      return found === undefined ? undefined : [answer.status, found]
    })
    const only = ready === 200 ? ' (reported only)' : ''
    expect(reason).toEqual([ready, `1 of 3 nodes can vote, 2 are needed${only}`])
    const headers = { 'Idempotency-Key': crypto.randomUUID() }
    expect((await fetch(proxy, { method: 'POST', headers, body: '{}' })).status).toBe(post)
  },
)
