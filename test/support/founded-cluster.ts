/**
 * Founds the cluster of new nodes at once, as the first sidecar does after it has waited for objections (3 s). For tests that are about
 * what sidecars do with a cluster, not about how there comes to be one.
 */
import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import { callMembership } from '../../src/redis/scripts.ts'

/** Longer than the founding takes. */
const CLAIM_MS = '60000'
/** The first sidecar raises it to what its leases need, and adds the names of the nodes. */
const QUARANTINE_MS = '1'

/** @param urls what ioredis takes: a URL, or the path of a unix socket */
export async function foundCluster(urls: readonly string[]): Promise<void> {
  const hex = () => randomBytes(16).toString('hex')
  const [founder, cluster] = [hex(), hex().slice(0, 16)]
  const clients = urls.map((url) => new Redis(url))
  try {
    await Promise.all(
      clients.map(async (client) => {
        const nonce = hex()
        const [runId] = (await callMembership(client, '', ['poll'])) as [string]
        for (const act of [
          ['begin', nonce, 'new'],
          ['claim', founder, CLAIM_MS, nonce],
          ['found', founder, cluster, QUARANTINE_MS, ''],
        ] as const)
          if ((await callMembership(client, runId, act)) !== 1)
            throw new Error(`${act[0]} was refused: is the node new?`)
      }),
    )
  } finally {
    for (const client of clients) client.disconnect()
  }
}
