/** One lock of node-redlock as its holder sees it, for bench/lease-profiles.ts: `node redlock-holder.ts URL,URL,…`. */
import { Redis } from 'ioredis'
import Redlock, { type Lock } from 'redlock'
import { answerLines } from '../support/holder-lines.ts'

// Without a limit a command to a node that is down waits for twenty attempts to connect.
const nodes = (process.argv[2] ?? '').split(',').map((url) => new Redis(url, { maxRetriesPerRequest: 0 }))
// A silent node is that of the drill, and no reason to write to stderr.
for (const node of nodes) node.on('error', () => {})
const redlock = new Redlock(nodes, { retryCount: 0 })
let lock: Lock | undefined

await answerLines({
  ready: async () => {
    await Promise.all(nodes.map((node) => node.ping()))
    return 'ready'
  },
  acquire: async (key = '', leaseMs = '') => {
    lock = await redlock.acquire([key], Number(leaseMs))
    return 'held'
  },
  token: async () => `none: value is random text of ${lock?.value.length} characters`,
  believes: async () =>
    Date.now() < (lock?.expiration ?? 0) ? 'held, by expiration' : 'over, where it looks at expiration',
  extend: async (leaseMs = '') => {
    lock = await lock?.extend(Number(leaseMs))
    return 'extended'
  },
  release: release,
  done: release,
  late: async () => 'no call',
  read: async () => 'no call',
})
for (const node of nodes) node.disconnect()

async function release(): Promise<string> {
  await lock?.release()
  return 'released'
}
