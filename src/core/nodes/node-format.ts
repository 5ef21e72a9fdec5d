/**
 * The version of what sidecars keep on a node besides records: its epoch, quarantine, list of nodes, pulses, wait queues and audit log.
 *
 * Records and outcomes have versions of their own, because they outlive a change of this one. All of the rest is read by sidecars of
 * every version at once, so a cluster has one format, written beside the list of its nodes. A change that earlier sidecars can't
 * work with raises it, and replaces the epoch in the same call, as a change of the list does (`membership.lua`): from then on
 * nothing that they send counts, and their next look refuses the node with the sentence of {@link whyNewer}.
 */

import { type Trouble, troubleOf } from '../node-faults.ts'

/** What this version writes, and the largest that it works with. `membership.lua` writes the same. */
export const NODE_FORMAT = 1

/** What a node shows of its format. */
export type FormatShown = {
  readonly epoch: string | undefined
  /** As it stands there; undefined where no sidecar has written one, which counts as 1. */
  readonly format?: string | undefined
}

/** Why this version must not work with the node: a later one has changed what is kept there; undefined where it may. */
export function whyNewer({ epoch, format }: FormatShown): Trouble | undefined {
  if (format !== undefined && format !== String(NODE_FORMAT))
    return troubleOf('later_format', format, String(NODE_FORMAT))
  const version = epoch?.split(':', 1)[0]
  if (version !== undefined && version !== EPOCH_VERSION)
    return troubleOf('later_epoch', JSON.stringify(version), EPOCH_VERSION)
  return undefined
}

/** In front of an epoch (`enrolment-rules.ts`). */
const EPOCH_VERSION = '1'
