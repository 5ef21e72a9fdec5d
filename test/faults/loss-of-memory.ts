/** F7: two nodes forget everything and get it back; then three do, and the operator has to decide. */

import { startFencepost } from '../support/processes.ts'
import { choose, type Fault, type FaultContext, pause } from './fault.ts'
import { allVote, joinedWithinMs } from './of-nodes.ts'
import { ANSWER_WITHIN_MS, NODES, QUARANTINE_MS, SETTINGS } from './stage.ts'

async function flush({ stage }: FaultContext, nodes: readonly number[]): Promise<void> {
  await Promise.all(nodes.map((node) => stage.admin[node]?.flushall()))
}

async function everywhere(context: FaultContext, votes: (count: number) => boolean): Promise<boolean> {
  const { stage } = context
  const counts = await Promise.all(stage.sidecars.map((_, index) => stage.votingNodes(index)))
  return counts.every(votes)
}

/** Keys that were recorded before: answered from the record, or refused for now, but never executed again. */
async function replayed(context: FaultContext, keys: readonly string[]): Promise<number> {
  const { stage, clients, demand, history } = context
  for (const [at, key] of keys.entries()) {
    await demand('a recorded answer survives that two nodes forget', ANSWER_WITHIN_MS, async () => {
      const again = await clients.submit({ sidecar: at % stage.sidecarCount, key })
      return again.type === 'ok' && again.says === 'replayed'
    })
  }
  history.saw('a replay while two nodes have forgotten', keys.length)
  return keys.length
}

async function declareLoss({ stage }: FaultContext): Promise<number | null> {
  await using child = startFencepost(
    ['nodes', 'declare-loss', '--by', 'the fault run', '--confirm', await clusterId(stage.admin)],
    {
      env: {
        ...SETTINGS,
        FENCEPOST_REDIS_NODES: stage.servers.nodesSetting,
        FENCEPOST_PROXY_LISTEN: 'off',
        FENCEPOST_API_LISTEN: 'off',
        FENCEPOST_ADMIN_LISTEN: 'off',
      },
    },
  )
  const { code } = await child.exited
  if (code !== 0) console.error(child.output)
  return code
}

async function clusterId(admin: FaultContext['stage']['admin']): Promise<string> {
  for (const node of admin) {
    const id = await node.hget('dedup::cluster', 'id')
    if (id !== null) return id
  }
  return 'nothing-is-known'
}

export const LOSS_OF_MEMORY: Fault = {
  id: 'F7',
  what: 'two nodes forget everything at once, then three',
  how: 'FLUSHALL on two, duplicates; when all vote again FLUSHALL on three, and `nodes declare-loss`',
  mayLoseLease: true,
  inject: async (context) => {
    const { stage, clients, demand, history, fraction, freshKey } = context
    // Two may forget where all others remember.
    await allVote(context)
    const keys = context.recentKeys(12)
    await flush(context, choose(fraction, NODES, 2))
    let bites = await replayed(context, keys)
    await demand('both rejoin', await joinedWithinMs(stage), () =>
      everywhere(context, (count) => count === NODES),
    )

    context.lose()
    await flush(context, choose(fraction, NODES, 3))
    await demand('three that forgot are noticed', 10_000, () => everywhere(context, (count) => count < 3))
    for (let at = 0; at < 6; at += 1) {
      const refused = await clients.submit({ sidecar: at % stage.sidecarCount, key: freshKey() })
      await demand(
        'without a majority that remembers no request is executed',
        1,
        async () => refused.type === 'info' || refused.status === 503,
      )
      bites += 1
    }
    await pause(QUARANTINE_MS)
    await demand('waiting alone gives no node a vote', 1, () => everywhere(context, (count) => count < 3))
    history.saw('fail closed until the operator decides')
    await demand('declare-loss ends with 0', 1, async () => (await declareLoss(context)) === 0)
    await demand('every node votes again', await joinedWithinMs(stage), () =>
      everywhere(context, (count) => count === NODES),
    )
    return bites
  },
}
