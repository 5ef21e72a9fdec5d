/** What a sidecar keeps of one node: its connection, what it is now, and what was seen of it before. */

import type { Redis } from 'ioredis'
import type { ClockSample } from '../core/nodes/clock-samples.ts'
import type { EpochSeen, NodeFacts } from './inspection.ts'
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
  /** Counts connections: what began on one must not be finished on another. */
  connection: number
  /** Looks that found it connected and still not ready. */
  unreadyLooks: number
  /** In this process's life it had a vote: an empty node is one that forgot, not a new one. */
  wasVoting: boolean
  /** What it promised under this epoch it may have forgotten, although the epoch stands. */
  invalidated: { readonly epoch: string; readonly reason: string } | undefined
  /** When it was last looked at. */
  epochSeen: EpochSeen | undefined
}

/** Told of what a node's clock showed; says whether its votes count. */
export type LookListener = (index: number, sample: ClockSample, sentWallMs: number) => boolean
