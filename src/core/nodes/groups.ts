/**
 * Several quorum groups: which of them keeps an identity, and the ports of one cluster over all of them.
 *
 * A group is a whole quorum, and every promise is about one record: its group keeps it, whatever the others do. Records that are claimed
 * together may be in different groups: each majority raises its own to the largest of their tokens, as within one group. The choice
 * depends on the names alone, and a new group takes its share from every other one and moves nothing else.
 *
 * Source: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates" (IEEE/ACM ToN 6, 1998): the
 * highest random weight.
 */

import { hash } from 'node:crypto'
import type { WaitQueues } from '../claims/wait-queue.ts'
import type { Leases } from '../ports.ts'

/** The index of the group that keeps the record of this key. */
export type Placement = (recordKey: string) => number

const PLACEMENT_SCHEME = 'fencepost-placement/1'

/** @param names of all groups, different ones; no name and no key has a NUL */
export function placementOf(names: readonly string[]): Placement {
  if (names.length <= 1) return () => 0
  const prefixes = names.map((name) => `${PLACEMENT_SCHEME}\0${name}\0`)
  return (recordKey) => {
    let chosen = 0
    let largest = ''
    for (const [index, prefix] of prefixes.entries()) {
      const weight = hash('sha256', prefix + recordKey, 'hex')
      if (weight > largest) {
        chosen = index
        largest = weight
      }
    }
    return chosen
  }
}

export type RoutedOptions = {
  /** A majority of one group, for the answer. */
  readonly required: number
  /** Whether all groups are known to be placed by the same names; until then no claim is sent. */
  readonly agreed: () => boolean
}

/** Leases over several groups. A lost group refuses its own identities and no others. */
export function routeLeases(
  groups: readonly Leases[],
  placement: Placement,
  { required, agreed }: RoutedOptions,
): Leases {
  const away = { kind: 'unavailable', answered: 0, required, notAsked: 'groups_unknown' } as const
  const of = (key: string) => (agreed() ? groups[placement(key)] : undefined)
  return {
    claim: async (request) => of(request.key)?.claim(request) ?? away,
    renew: async (lease) => of(lease.key)?.renew(lease) ?? away,
    renewWithHigherToken: async (lease) => of(lease.key)?.renewWithHigherToken(lease) ?? away,
    complete: async (lease, outcome) => of(lease.key)?.complete(lease, outcome) ?? away,
    release: async (lease) => of(lease.key)?.release(lease) ?? away,
    abortClaim: async (lease) => of(lease.key)?.abortClaim(lease) ?? away,
    purge: async (lease) => of(lease.key)?.purge(lease) ?? away,
    read: async (key) => of(key)?.read(key) ?? away,
  }
}

/** Wait queues over several groups of as many nodes each: a record's queue is in its group. */
export function routeWaitQueues(
  groups: readonly [WaitQueues, ...WaitQueues[]],
  placement: Placement,
): WaitQueues {
  const [first] = groups
  return {
    nodeCount: first.nodeCount,
    update: (key, entry) => (groups[placement(key)] ?? first).update(key, entry),
  }
}
