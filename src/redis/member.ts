/** A sidecar's state of one node: its connection, its current state, and what was seen of it before. */

import type { Redis } from 'ioredis'
import type { ClockSample } from '../core/nodes/clock-samples.ts'
import type { EpochWatch } from '../core/nodes/epoch-watch.ts'
import type { NodeFacts } from './inspection.ts'
import type { RedisNode } from './node.ts'

export type NodeState =
  | { readonly kind: 'down'; readonly reason: string }
  | { readonly kind: 'unfit'; readonly reason: string }
  | { readonly kind: 'quarantined'; readonly facts: NodeFacts; readonly reason: string }
  | { readonly kind: 'voting'; readonly facts: NodeFacts }

export type Member = {
  readonly node: RedisNode
  readonly client: Redis
  state: NodeState
  /** Counts connections: work begun on one must not be finished on another. */
  connection: number
  /** Looks that found it connected and still not ready. */
  unreadyLooks: number
  /** It had a vote in this process's life: if empty, it forgot, and is not new. */
  wasVoting: boolean
  /** It may have forgotten what it promised under this epoch, although the epoch stands. */
  invalidated: { readonly epoch: string; readonly reason: string } | undefined
  readonly epochs: EpochWatch
}

/** Called with a reading of a node's clock; returns whether its votes count. */
export type LookListener = (index: number, sample: ClockSample, sentWallMs: number) => boolean
