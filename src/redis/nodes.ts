/**
 * The N Redis nodes of one cluster: connects them, keeps watch over which may vote, and closes them.
 *
 * Owns the life of the connections. Each (re)connection is inspected before a command is sent over it, because a process
 * that was started again cannot keep a TCP connection: that is where a node that forgot is noticed.
 */

import type { Redis } from 'ioredis'
import type { Events } from '../core/events.ts'
import type { Clock, Random } from '../core/ports.ts'
import { createRedisClient, type RedisAddress } from './connect.ts'
import { enrolNewNode, fitnessOf, inspectNode, isEnrolled, type NodeFacts } from './enrolment.ts'
import { NO_EPOCH, RedisNode } from './node.ts'
import { loadBatchScript, type Script } from './scripts.ts'

export type RedisNodesOptions = {
  readonly addresses: readonly RedisAddress[]
  readonly deadlineMs: number
  readonly connectTimeoutMs: number
  readonly maxTokenAheadMs: number
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
}

export type NodeState =
  | { readonly kind: 'down'; readonly reason: string }
  | { readonly kind: 'unfit'; readonly reason: string }
  | { readonly kind: 'quarantined'; readonly facts: NodeFacts }
  | { readonly kind: 'voting'; readonly facts: NodeFacts }

type Member = { readonly node: RedisNode; readonly client: Redis; state: NodeState }

export class RedisNodes implements AsyncDisposable {
  readonly nodes: readonly RedisNode[]
  readonly #members: readonly Member[]
  readonly #script: Script
  readonly #nonce: string
  #enrolling: Promise<void> | undefined

  constructor(options: RedisNodesOptions) {
    const { deadlineMs, maxTokenAheadMs, clock, events } = options
    this.#script = loadBatchScript()
    this.#nonce = options.random.hex(8)
    this.#members = options.addresses.map((address, index) => {
      const client = createRedisClient(address, options.connectTimeoutMs, options.random)
      const name = `redis-${index}`
      const node = new RedisNode({
        name,
        client,
        script: this.#script,
        deadlineMs,
        maxTokenAheadMs,
        clock,
        events,
      })
      return { node, client, state: { kind: 'down', reason: 'not connected yet' } }
    })
    this.nodes = this.#members.map((member) => member.node)
  }

  /** What is known of each node now, in the order of the addresses. */
  states(): readonly { readonly name: string; readonly state: NodeState }[] {
    return this.#members.map(({ node, state }) => ({ name: node.name, state }))
  }

  /** Dials all nodes. Resolves when each has been inspected or could not be reached; a node that is down is dialled on. */
  async connect(): Promise<void> {
    await Promise.all(
      this.#members.map(async (member) => {
        const { client } = member
        client.on('close', () => this.#down(member, 'connection closed'))
        // Without a listener a refused connection would end the process; the reason is kept for whoever looks.
        client.on('error', (error: Error) => this.#down(member, error.message))
        client.on('ready', () => void this.#inspect(member))
        await client.connect().catch(() => {})
        await this.#inspect(member)
      }),
    )
  }

  #down(member: Member, reason: string): void {
    member.node.useEpoch(undefined)
    if (member.state.kind !== 'unfit') member.state = { kind: 'down', reason }
  }

  async #inspect(member: Member): Promise<void> {
    if (member.client.status !== 'ready') return
    try {
      const facts = await inspectNode(member.client)
      const fitness = fitnessOf(facts)
      const twin = this.#members.find((other) => other !== member && runIdOf(other.state) === facts.runId)
      if (fitness.kind === 'unfit') return this.#refuse(member, fitness.reason)
      if (twin !== undefined) {
        return this.#refuse(
          member,
          `it is the same server as ${twin.node.name} (run_id ${facts.runId}): each node must be a process of its own`,
        )
      }
      await member.client.script('LOAD', this.#script.source)
      this.#admit(member, facts)
      if (!isEnrolled(facts)) await this.#enrolNewCluster()
    } catch (cause) {
      this.#down(member, cause instanceof Error ? cause.message : String(cause))
    }
  }

  #refuse(member: Member, reason: string): void {
    member.node.useEpoch(undefined)
    member.state = { kind: 'unfit', reason }
  }

  #admit(member: Member, facts: NodeFacts): void {
    const enrolled = isEnrolled(facts)
    member.state = { kind: enrolled ? 'voting' : 'quarantined', facts }
    member.node.useEpoch(enrolled && facts.epoch !== undefined ? facts.epoch : NO_EPOCH)
  }

  /** Only where every one of all N nodes is there and none was ever enrolled: then nothing can have been forgotten. */
  #enrolNewCluster(): Promise<void> {
    this.#enrolling ??= this.#enrolIfNew().finally(() => {
      this.#enrolling = undefined
    })
    return this.#enrolling
  }

  async #enrolIfNew(): Promise<void> {
    const fresh = this.#members.every(
      ({ state }) => state.kind === 'quarantined' && state.facts.epoch === undefined,
    )
    if (!fresh) return
    await Promise.all(
      this.#members.map(async (member) => {
        if (member.state.kind !== 'quarantined') return
        const epoch = await enrolNewNode(member.client, member.state.facts, this.#nonce)
        this.#admit(member, { ...member.state.facts, epoch })
      }),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const { client } of this.#members) client.disconnect()
  }
}

function runIdOf(state: NodeState): string | undefined {
  return state.kind === 'voting' || state.kind === 'quarantined' ? state.facts.runId : undefined
}
