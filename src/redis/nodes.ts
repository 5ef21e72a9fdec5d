/** The N Redis nodes of one cluster: their connections, under the driver of all kinds of nodes (`core/nodes/node-driver.ts`), and a question to each. */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import { type DriverOptions, type Member, memberOf } from '../core/nodes/member.ts'
import { NodeDriver } from '../core/nodes/node-driver.ts'
import { within } from '../core/retry.ts'
import { addressOf, createRedisClient, type RedisAddress } from './connect.ts'
import { redisLink } from './link.ts'
import { RedisNode } from './node.ts'
import { loadBatchScript, type Script } from './scripts.ts'

export type RedisNodesOptions = DriverOptions & {
  readonly addresses: readonly RedisAddress[]
  readonly deadlineMs: number
  readonly maxTokenAheadMs: number
  readonly answerMaxAgeMs: number
  /** The largest outcome that this sidecar stores; absent: what any may. */
  readonly outcomeBytesMax?: number
  /** Share of a node's `maxmemory` beyond which it is sent no new claims. Default: all of it. */
  readonly claimsMemoryShare?: number
}

export type RedisMember = Member & { readonly node: RedisNode; readonly client: Redis }

export class RedisNodes extends NodeDriver {
  declare readonly members: readonly RedisMember[]
  declare readonly options: RedisNodesOptions
  readonly nodes: readonly RedisNode[]
  readonly script: Script

  constructor(options: RedisNodesOptions) {
    const script = loadBatchScript()
    const forgot: ((index: number) => void)[] = []
    const members = options.addresses.map((address, index): RedisMember => {
      const client = createRedisClient(address, options)
      const at = addressOf(address)
      const name = options.names?.[index] ?? at
      const onForgot = () => forgot[0]?.(index)
      const node = new RedisNode({ ...options, name, client, script, onForgot })
      const link = redisLink({ ...options, name, client, address, script })
      return Object.assign(memberOf(node, link, at), { node, client })
    })
    super(members, options)
    forgot.push((index) => this.forgot(index))
    this.nodes = members.map(({ node }) => node)
    this.script = script
  }
}

/** The client of each node; undefined where no command may be sent to it now. */
export type NodeClients = () => readonly (Redis | undefined)[]

export type AskEach = <T>(
  ask: (client: Redis) => Promise<T>,
  onFailure?: (cause: unknown) => void,
) => Promise<readonly (T | undefined)[]>

/** The answer of each node, in their order; undefined without one in time: why does not matter to who asks so. */
export function askingEach(clients: NodeClients, deadlineMs: number, clock: Clock): AskEach {
  return (ask, onFailure) =>
    Promise.all(
      clients().map(async (client) =>
        client === undefined
          ? undefined
          : within(clock, deadlineMs, ask(client), 'no answer').catch((cause: unknown) => {
              onFailure?.(cause)
              return undefined
            }),
      ),
    )
}
