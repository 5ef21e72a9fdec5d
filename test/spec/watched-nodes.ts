/**
 * Five real nodes and everything that they execute: MONITOR of each, and what one remembers when it is started again.
 *
 * Each has a door for sidecars, so that none reaches a node before its MONITOR does.
 */

import { Redis } from 'ioredis'
import { INCARNATION_KEY, RECORD_PATTERN } from '../../src/redis/keys.ts'
import { loadBatchScript } from '../../src/redis/scripts.ts'
import { type FaultLink, startFaultLink } from '../faults/fault-proxy.ts'
import { eventually } from '../support/eventually.ts'
import type { RedisServers } from '../support/redis-servers.ts'
import { Monitor } from './monitor.ts'
import { NodeRecorder, type Remembered, type Timed } from './node-recorder.ts'

export class WatchedNodes implements AsyncDisposable {
  readonly links: readonly FaultLink[]
  readonly #servers: RedisServers
  readonly #recorders: readonly NodeRecorder[]
  readonly #monitors: Monitor[]

  private constructor(servers: RedisServers, links: readonly FaultLink[], monitors: Monitor[]) {
    const script = loadBatchScript()
    this.#servers = servers
    this.links = links
    this.#monitors = monitors
    this.#recorders = monitors.map((_, node) => new NodeRecorder(node, script))
  }

  static async of(servers: RedisServers): Promise<WatchedNodes> {
    const ports = servers.urls.map((url) => Number(new URL(url).port))
    const links = await Promise.all(ports.map((port) => startFaultLink(port)))
    return new WatchedNodes(servers, links, await Promise.all(ports.map((port) => Monitor.on(port))))
  }

  /** Ends it (a crash if it comes back empty) and starts it; sidecars are let in once its memory is recorded. */
  async startAgain(node: number, { emptied }: { readonly emptied: boolean }): Promise<void> {
    const monitor = this.#monitors[node] as Monitor
    await (emptied ? this.#servers.kill(node) : this.#servers.stop(node))
    await monitor.ended()
    this.#recorders[node]?.take(monitor.lines)
    this.links[node]?.set({ refuse: true })
    await this.#servers.start(node, { emptied })
    this.#monitors[node] = await Monitor.on(Number(new URL(this.#servers.at(node).url).port))
    this.#recorders[node]?.startedWith(await this.admin(node, remembered))
    this.links[node]?.heal()
  }

  async admin<T>(node: number, ask: (client: Redis) => Promise<T>): Promise<T> {
    const client = new Redis(this.#servers.at(node).url)
    try {
      return await ask(client)
    } finally {
      client.disconnect()
    }
  }

  /** All that was executed until now: a call of our own is the last line of each. */
  async finish(): Promise<{ readonly timed: readonly Timed[]; readonly twice: ReadonlySet<string> }> {
    await Promise.all(
      this.#monitors.map(async ({ lines }, node) => {
        await this.admin(node, (client) => client.echo('the end'))
        await eventually('the last line is read', () => lines.some(({ words }) => words[1] === 'the end'))
        this.#recorders[node]?.take(lines)
      }),
    )
    return {
      timed: this.#recorders.flatMap(({ events }) => events),
      twice: new Set(this.#recorders.flatMap(({ twice }) => [...twice])),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#monitors, ...this.links].map((one) => one[Symbol.asyncDispose]()))
  }
}

async function remembered(client: Redis): Promise<Remembered> {
  const keys = await client.keys(RECORD_PATTERN)
  const records = await Promise.all(
    keys.map(async (key) => {
      const [bytes, leftMs] = [(await client.getBuffer(key)) ?? Buffer.alloc(0), await client.pttl(key)]
      return [key, { bytes: bytes.toString('latin1'), expiresMs: Date.now() + leftMs }] as const
    }),
  )
  const incarnation = await client.get(INCARNATION_KEY)
  return { atUs: nowUs(), records: new Map(records), ...(incarnation === null ? {} : { incarnation }) }
}

/** The next whole millisecond: after all that this process knows of, and before all that it has yet to ask for. */
export function nowUs(): number {
  const ms = Date.now()
  let now = ms
  while (now === ms) now = Date.now()
  return now * 1_000
}
