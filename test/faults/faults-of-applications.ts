/** F27 to F33: faults of the application and the clients. */

import type { Mode } from './application.ts'
import { type Fault, type FaultContext, pause } from './fault.ts'
import { LEASE_MS } from './stage.ts'

/** Each script on a key of its own; then, after the lease at the latest, the request succeeds. */
async function scripted(context: FaultContext, scripts: readonly (readonly Mode[])[]): Promise<number> {
  const { stage, clients, demand, freshKey } = context
  const ended = await Promise.all(
    scripts.map(async (script, at) => {
      const key = freshKey()
      const first = await clients.submit({ sidecar: at % stage.sidecarCount, key, script })
      await demand(
        `after ${script.join()} a retry is executed or answered within a lease`,
        LEASE_MS + 15_000,
        async () => {
          if (!stage.application.process.running) await restarted(context)
          const again = await clients.submit({ sidecar: (at + 1) % stage.sidecarCount, key, script })
          return again.type === 'ok' && (again.status === 201 || again.status === 404)
        },
      )
      return first.type === 'info' || first.says !== 'created'
    }),
  )
  return ended.filter((bit) => bit).length
}

let restarting: Promise<void> | undefined

async function restarted({ stage }: FaultContext): Promise<void> {
  restarting ??= stage.application.restart().finally(() => {
    restarting = undefined
  })
  await restarting
}

export const FAULTS_OF_APPLICATIONS: readonly Fault[] = [
  {
    id: 'F27',
    what: 'the application succeeds after the sidecar has given up waiting',
    how: 'answers after 3.4 s of 3 s',
    inject: (context) => scripted(context, [['slow:3400'], ['slow:3400']]),
  },
  {
    id: 'F28',
    what: 'the application answers 500, 503, 429, 404, or 502, 504 or 408',
    how: 'statuses',
    inject: (context) =>
      scripted(
        context,
        [500, 503, 429, 404, 502, 504, 408].map((status) => [`status:${status}` as const]),
      ),
  },
  {
    id: 'F29',
    what: 'the application crashes before and after the effect',
    how: 'its process ends before or after its log line, and is started again',
    inject: async (context) =>
      (await scripted(context, [['crash-before']])) + (await scripted(context, [['crash-after']])),
  },
  {
    id: 'F30',
    what: 'the application answers half, resets, contradicts itself, says too much, or never ends',
    how: 'half a body, RST, two lengths, trailers, a head of 2 MiB, an endless body',
    inject: (context) =>
      scripted(context, [
        ['half-body'],
        ['reset'],
        ['wrong-length'],
        ['trailers'],
        ['huge-head'],
        ['endless'],
      ]),
  },
  {
    id: 'F31',
    what: 'clients go away while the application works',
    how: 'their connection is closed after 150 ms of 1,500; their retry is answered from the record',
    inject: async (context) => {
      const { stage, clients, demand, history, freshKey } = context
      const keys = Array.from({ length: 5 }, () => freshKey())
      const left = await Promise.all(
        keys.map((key, at) => {
          // The application works for ten times as long: even a client that leaves late leaves before its answer.
          const script = ['slow:1500'] as const
          return clients.submit({ sidecar: at % stage.sidecarCount, key, script, leaveAfterMs: 150 })
        }),
      )
      for (const [at, key] of keys.entries()) {
        await demand('the retry of a client that left is answered', LEASE_MS + 10_000, async () => {
          const again = await clients.submit({
            sidecar: (at + 1) % stage.sidecarCount,
            key,
          })
          if (again.type === 'ok' && again.says === 'replayed')
            history.saw('a replay to a client that had left')
          return again.type === 'ok' && again.status === 201
        })
      }
      return left.filter(({ type }) => type === 'info').length
    },
  },
  {
    id: 'F32',
    what: 'a storm: 200 copies of one request at once',
    how: 'over all sidecars, until each has its answer',
    inject: async ({ stage, clients, freshKey }) => {
      const key = freshKey()
      const copies = await Promise.all(
        Array.from({ length: 200 }, (_, at) =>
          clients.submit({ sidecar: at % stage.sidecarCount, key, script: ['slow:200'] }),
        ),
      )
      await clients.submit({ sidecar: 0, key })
      return copies.filter((copy) => copy.type === 'ok' && copy.says !== 'created').length
    },
  },
  {
    id: 'F33',
    what: 'a flood of keys that come once, and one hot key',
    how: '300 keys and 60 copies of one, at once',
    inject: async ({ stage, clients, freshKey }) => {
      const hot = freshKey()
      const flood = Array.from({ length: 360 }, (_, at) => (at % 6 === 0 ? hot : freshKey()))
      for (let from = 0; from < flood.length; from += 60) {
        await Promise.all(
          flood
            .slice(from, from + 60)
            .map((key, at) => clients.submit({ sidecar: at % stage.sidecarCount, key })),
        )
        await pause(1)
      }
      return flood.length
    },
  },
]
