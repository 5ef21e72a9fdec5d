/**
 * Short, directed scenes on real processes, each of which succeeds only while one rule of the protocol holds.
 *
 * Owns the scenes. A checker must notice a build without the rule (`mutants.ts`); the build of production must pass
 * every scene.
 */

import { eventually } from '../support/eventually.ts'
import { type FaultContext, pause } from './fault.ts'
import { BACK_AMONG_STRANGERS, halfMoved, patiently } from './faults-of-names.ts'
import { LEASE_MS, NODES } from './stage.ts'

export type Trial = (context: FaultContext) => Promise<void>

/** Long enough for a paused sidecar to find the answer of the application before its own deadline. */
export const TRIAL_SETTINGS = { FENCEPOST_UPSTREAM_TIMEOUT: '30s', FENCEPOST_UPSTREAM_BODY_TIMEOUT: '30s' }

type Held = { readonly key: string; readonly id: string; readonly token: number | undefined }

/** Sidecar 0 holds a value, its lease ends, and sidecar 1 holds it. */
async function overtaken({ clients, freshKey }: FaultContext): Promise<{ first: Held; second: Held }> {
  const key = `r-${freshKey()}`
  const one = await clients.reserve(0, key, 1_000)
  const two = await eventually(
    'the value to be reserved by another',
    async () => {
      const held = await clients.reserve(1, key, LEASE_MS)
      return held.type === 'ok' && held.status === 201 ? held : undefined
    },
    { withinMs: 15_000, everyMs: 100 },
  )
  return { first: { key, id: one.id, token: one.token }, second: { key, id: two.id, token: two.token } }
}

const staleRelease: Trial = async (context) => {
  const { first } = await overtaken(context)
  await context.clients.end('release', 0, first)
  await context.clients.reserve(0, first.key, LEASE_MS)
}

const staleRenewal: Trial = async (context) => {
  const { first, second } = await overtaken(context)
  await context.clients.end('release', 1, second)
  await context.clients.end('extend', 0, first)
}

/** The clock of sidecar 1 is five minutes behind that of sidecar 0, whose token the nodes remember. */
const clockBehind: Trial = async ({ stage, clients, demand, freshKey }) => {
  const key = `r-${freshKey()}`
  const held = await clients.reserve(0, key, LEASE_MS)
  await clients.end('release', 0, { key, id: held.id, token: held.token })
  stage.sidecarClocks[1]?.set(-300_000)
  await demand('a sidecar whose clock is behind reserves a released value', 8_000, async () => {
    const next = await clients.reserve(1, key, LEASE_MS)
    return next.type === 'ok' && next.status === 201
  })
}

/** Sidecar 0 sees the nodes 0 and 1, sidecar 1 the others. */
const split: Trial = async ({ stage, clients, freshKey }) => {
  for (const node of [2, 3, 4]) stage.link(0, node).set({ refuse: true })
  for (const node of [0, 1]) stage.link(1, node).set({ refuse: true })
  await pause(300)
  const key = freshKey()
  const script = ['slow:1500', 'slow:1500'] as const
  await Promise.all([0, 1].map((sidecar) => clients.submit({ sidecar, key, script })))
}

/** A grant of a minority to sidecar 0 must not block sidecar 1, which needs just these nodes. */
const leftovers: Trial = async ({ stage, clients, demand, freshKey }) => {
  for (const node of [2, 3, 4]) stage.link(0, node).set({ refuse: true })
  await pause(300)
  const key = freshKey()
  await clients.submit({ sidecar: 0, key })
  for (const node of [2, 3]) stage.link(1, node).set({ refuse: true })
  // Below the rest of a lease that was granted a moment ago, but as long as possible, for a machine that stalls.
  await demand('a lost round leaves no claim behind', LEASE_MS * 0.75, async () => {
    const answer = await clients.submit({ sidecar: 1, key })
    return answer.type === 'ok' && answer.status === 201
  })
}

async function carriedOutBySomebodyElse({ clients, demand }: FaultContext, key: string): Promise<void> {
  await demand('another sidecar takes over after the lease', LEASE_MS + 10_000, async () => {
    const answer = await clients.submit({ sidecar: 0, key })
    return answer.type === 'ok' && answer.status === 201
  })
}

/** Sidecar 1 is suspended while the application works, finds the answer a lease later, and offers it. */
const lateCompletion: Trial = async (context) => {
  const { stage, clients, freshKey } = context
  const key = freshKey()
  const late = clients.submit({ sidecar: 1, key, script: ['slow:200'] })
  await eventually('the execution', () => stage.application.executions().some((one) => one.key === key), {
    withinMs: 10_000,
  })
  stage.sidecar(1).process.signal('SIGSTOP')
  await carriedOutBySomebodyElse(context, key)
  stage.sidecar(1).process.signal('SIGCONT')
  await late
}

/**
 * Four nodes have granted sidecar 1 a takeover, and it waits for the fifth, as before every takeover. There it is
 * suspended past the lease, and its wall clock is set back, so that only the monotonic clock shows the end.
 */
const deadGrant: Trial = async (context) => {
  const { stage, clients, freshKey } = context
  const key = freshKey()
  await clients.submit({ sidecar: 0, key, script: ['reset'] })
  const slow = NODES - 1
  // Only this one answer: the round does not wait for a node that is silent for longer.
  stage.link(1, slow).onBytes = ({ direction, bytes }) => {
    if (direction === 'back' && bytes.includes('granted')) stage.link(1, slow).set({ hold: 'back' })
  }
  const granted = new Set<number>()
  const stopped = new Promise<void>((resolve) => {
    for (let node = 0; node < slow; node += 1) {
      stage.link(1, node).onBytes = ({ direction, bytes }) => {
        if (direction === 'back' && bytes.includes('granted')) granted.add(node)
        if (granted.size !== slow) return
        granted.add(-1)
        // It must have read the answers before the deadline of the fifth.
        setTimeout(() => {
          stage.sidecar(1).process.signal('SIGSTOP')
          resolve()
        }, 60)
      }
    }
  })
  const asking = (async () => {
    for (;;) {
      const answer = await clients.submit({ sidecar: 1, key })
      if (answer.type === 'info' || answer.status !== 409) return
      await pause(100)
    }
  })()
  await Promise.race([stopped, pause(LEASE_MS + 5_000)])
  for (let node = 0; node < NODES; node += 1) stage.link(1, node).onBytes = undefined
  await carriedOutBySomebodyElse(context, key)
  stage.sidecarClocks[1]?.set(-3_600_000)
  stage.link(1, slow).heal()
  stage.sidecar(1).process.signal('SIGCONT')
  await asking
}

const halfAnswer: Trial = async (context) => {
  const { clients, freshKey } = context
  const key = freshKey()
  await clients.submit({ sidecar: 0, key, script: ['half-body'] })
  await carriedOutBySomebodyElse(context, key)
}

const twoTenants: Trial = async ({ clients, freshKey }) => {
  const key = freshKey()
  await clients.submit({ sidecar: 0, key, tenant: 'acme' })
  await clients.submit({ sidecar: 1, key, tenant: 'globex' })
}

/** Sidecar 1 uses another server under the name of node 0, and each side has two of the other nodes. */
const twoServers: Trial = async (context) => {
  await patiently(context, () => halfMoved(context, 0, [1]))
}

/** All use another server for a while, and come back as processes that never used the first one. */
const nameBack: Trial = async (context) => {
  await BACK_AMONG_STRANGERS.inject(context)
}

export const TRIALS = {
  'stale-release': staleRelease,
  'stale-renewal': staleRenewal,
  'clock-behind': clockBehind,
  split,
  leftovers,
  'late-completion': lateCompletion,
  'dead-grant': deadGrant,
  'half-answer': halfAnswer,
  'two-tenants': twoTenants,
  'two-servers': twoServers,
  'name-back': nameBack,
} as const satisfies Record<string, Trial>

export type TrialName = keyof typeof TRIALS
