/** F11 to F15 and F34: faults between sidecars and nodes. */

import { between, choose, during, type Fault, type FaultContext, pause } from './fault.ts'
import type { FaultLink } from './fault-proxy.ts'
import { LEASE_MS, NODES } from './stage.ts'

/** Sets links, waits, heals. @returns the number of pieces that met a trouble */
async function troubled(links: readonly FaultLink[], act: () => Promise<unknown>): Promise<number> {
  const before = links.reduce((sum, link) => sum + link.troubled, 0)
  await act()
  for (const link of links) link.heal()
  return links.reduce((sum, link) => sum + link.troubled, 0) - before
}

function someSidecar({ stage, fraction }: FaultContext): number {
  return Math.floor(fraction() * stage.sidecarCount)
}

function linksOf({ stage }: FaultContext, sidecar: number, nodes: readonly number[]): readonly FaultLink[] {
  return nodes.map((node) => stage.link(sidecar, node))
}

export const FAULTS_OF_NETWORK: readonly Fault[] = [
  {
    id: 'F11a',
    what: 'one sidecar is cut off from one to three nodes',
    how: 'black hole on its links alone; the others see all nodes',
    mayLoseLease: true,
    inject: (context) => {
      const links = linksOf(
        context,
        someSidecar(context),
        choose(context.fraction, NODES, 1 + Math.floor(context.fraction() * 3)),
      )
      return troubled(links, async () => {
        for (const link of links) link.set({ hold: 'both' })
        await pause(2_500)
      })
    },
  },
  {
    id: 'F11b',
    what: 'two sidecars see different nodes: {0,1,2} and {2,3,4}',
    how: 'black holes, per sidecar',
    inject: (context) => {
      const links = [...linksOf(context, 0, [3, 4]), ...linksOf(context, 1, [0, 1])]
      return troubled(links, async () => {
        for (const link of links) link.set({ hold: 'both' })
        await pause(2_500)
      })
    },
  },
  {
    id: 'F11c',
    what: 'requests reach three nodes, and their answers do not come back',
    how: 'one-way drop for one sidecar; healed, the old answers arrive',
    mayLoseLease: true,
    inject: (context) => {
      const links = linksOf(context, someSidecar(context), choose(context.fraction, NODES, 3))
      return troubled(links, async () => {
        for (const link of links) link.set({ hold: 'back' })
        await pause(2_500)
      })
    },
  },
  {
    id: 'F12',
    what: 'a partition comes and goes every 50 to 300 ms',
    how: 'links of one sidecar to three nodes held and healed in turn',
    mayLoseLease: true,
    inject: (context) => {
      const links = linksOf(context, someSidecar(context), choose(context.fraction, NODES, 3))
      let held = false
      return troubled(links, () =>
        during(
          3_000,
          () => between(context.fraction, 50, 300),
          () => {
            held = !held
            for (const link of links) link.set(held ? { hold: 'both' } : {})
          },
        ),
      )
    },
  },
  {
    id: 'F13',
    what: 'one to five nodes are slow',
    how: 'latency of 5 to 200 ms and jitter up to 100 ms on every link to them',
    mayLoseLease: true,
    inject: (context) => {
      const { stage, fraction } = context
      const links = choose(fraction, NODES, 1 + Math.floor(fraction() * 5)).flatMap((node) =>
        stage.linksTo(node),
      )
      const trouble = { latencyMs: between(fraction, 2, 100), jitterMs: between(fraction, 0, 50) }
      return troubled(links, async () => {
        for (const link of links) link.set(trouble)
        await pause(3_000)
      })
    },
  },
  {
    id: 'F14a',
    what: 'connections are reset in the middle of commands and answers',
    how: 'RST on the links of one sidecar to two nodes, each 100 ms',
    inject: (context) => {
      const links = linksOf(context, someSidecar(context), choose(context.fraction, NODES, 2))
      return troubled(links, () =>
        during(
          2_000,
          () => 100,
          () => {
            for (const link of links) link.reset()
          },
        ),
      )
    },
  },
  {
    id: 'F14b',
    what: 'every byte comes alone',
    how: 'writes of one byte on every link of one sidecar',
    inject: (context) => {
      const links = linksOf(context, someSidecar(context), [0, 1, 2, 3, 4])
      return troubled(links, async () => {
        for (const link of links) link.set({ sliceBytes: 1 })
        await pause(1_500)
      })
    },
  },
  {
    id: 'F14c',
    what: 'nodes close their half of a connection',
    how: 'FIN towards every sidecar from two nodes',
    inject: (context) => {
      const links = choose(context.fraction, NODES, 2).flatMap((node) => context.stage.linksTo(node))
      return troubled(links, async () => {
        for (const link of links) link.halfClose()
        await pause(1_500)
      })
    },
  },
  {
    id: 'F15',
    what: 'two nodes drop all their clients, again and again',
    how: 'CLIENT KILL TYPE normal each 500 ms',
    inject: async ({ stage, fraction }) => {
      const nodes = choose(fraction, NODES, 2)
      return during(
        2_500,
        () => 500,
        () =>
          Promise.all(
            nodes.map((node) => stage.admin[node]?.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')),
          ),
      )
    },
  },
  {
    id: 'F34',
    what: 'renewals are lost, late, after the end, and after a takeover',
    how: 'answers to one extension are held back; another session reserves after the lease; the first extends again',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, demand, history, freshKey } = context
      const key = `r-${freshKey()}`
      const first = await clients.reserve(0, key, 1_500)
      const links = linksOf(context, 0, [0, 1, 2])
      const bites = await troubled(links, async () => {
        for (const link of links) link.set({ hold: 'back' })
        await clients.end('extend', 0, { key, id: first.id, token: first.token })
      })
      // Twice, as a retry would: the second must not add to the first.
      await Promise.all(
        [1, 2].map((sidecar) =>
          clients.end('extend', sidecar % stage.sidecarCount, { key, id: first.id, token: first.token }),
        ),
      )
      let second = await clients.reserve(1, key, 1_500)
      await demand('an unrenewed lease ends', LEASE_MS + 10_000, async () => {
        second = await clients.reserve(1, key, 1_500)
        return second.type === 'ok' && second.status === 201
      })
      const late = await clients.end('extend', 2 % stage.sidecarCount, {
        key,
        id: first.id,
        token: first.token,
      })
      const lateRelease = await clients.end('release', 1, { key, id: first.id, token: first.token })
      for (const one of [late, lateRelease]) {
        if (one.type === 'ok' && one.status === 410) history.saw('a stale token is refused')
      }
      await clients.end('complete', 1, { key, id: second.id, token: second.token })
      return bites
    },
  },
  {
    id: 'F35',
    what: 'confirmed twice, released after it, confirmed with an old token',
    how: 'calls of the reservation API at different sidecars',
    inject: async (context) => {
      const { stage, clients, history, freshKey } = context
      const key = `r-${freshKey()}`
      const held = await clients.reserve(0, key, LEASE_MS)
      const { id, token } = held
      const calls = [
        await clients.end('complete', 0, { key, id, token }),
        await clients.end('complete', 1 % stage.sidecarCount, { key, id, token }),
        await clients.end('release', 2 % stage.sidecarCount, { key, id, token }),
        await clients.end('complete', 0, { key, id, token: (token ?? 2) - 1 }),
      ]
      const refused = calls.filter((call) => call.type === 'ok' && call.status >= 400).length
      history.saw('a stale token is refused', refused)
      return calls.length
    },
  },
]
