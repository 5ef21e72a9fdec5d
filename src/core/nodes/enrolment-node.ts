/** A node as enrolment sees it: the port between the rules and any kind of node. */

import type { Merged, RecordSnapshot } from '../record/record-merge.ts'
import type { Cluster, CopyProgress, Origin } from './enrolment-rules.ts'

/** A node's snapshots of some records. */
export type Inspection = {
  /** It was enrolled when it answered: a record that it does not show it never knew. */
  readonly voting: boolean
  /** Its clock at that moment. */
  readonly nodeMs: number
  /** One entry per key, in order; undefined: it has none. `damaged` where it can't be read. */
  readonly snapshots: readonly (SizedSnapshot | 'damaged' | undefined)[]
}

/** `sizeBytes`: its size with its outcome, where the node reports it. */
export type SizedSnapshot = RecordSnapshot & { readonly sizeBytes?: number }

export type Adoption = { readonly key: string; readonly merged: Merged }

/** A node as enrolment sees it. Every call may reject; none may be executed on another run of the node's process. */
export interface EnrolmentNode {
  readonly name: string
  /** Begins the quarantine, where none stands for this run of the node, or one of a node that was taken for a new one. */
  begin(nonce: string, origin: Origin): Promise<void>
  /** Begins it anew. */
  restart(nonce: string, nextNonce: string, why?: WhyAnew): Promise<void>
  /** False where the nonce is no longer current. */
  save(nonce: string, progress: CopyProgress): Promise<boolean>
  /** Sets the epoch, where the nonce is still current. */
  enrol(nonce: string, cluster: Cluster): Promise<boolean>
  /** Some of its keys, and the next cursor; `FIRST_CURSOR` at the end. A key that stays is returned at least once. */
  keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }>
  /** @param whole with outcomes; else a record shows the first bytes of its own, which say when it ends */
  inspect(keys: readonly string[], whole: boolean): Promise<Inspection>
  /** Writes records to it, all or none: rejects, and changes nothing, where the nonce is outdated (`mayBeTold`). */
  adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void>
  /**
   * Claims the node for the founding of a new cluster, for a while. False where it is claimed already, or no longer
   * waits as a new one under the proposed nonce: from here on no sidecar can object.
   */
  claimFounding(nonce: string, proposed: string): Promise<boolean>
  /** Sets the first epoch, where the claim still stands and there is none. */
  found(nonce: string, cluster: Cluster): Promise<boolean>
  abandonFounding(nonce: string): Promise<void>
}

export type WhyAnew = {
  /** Another server is used under its name: who looks at the node later sees it. */
  readonly rival?: boolean
  /** It has forgotten once more: a loss that was declared before does not cover that. */
  readonly forgot?: boolean
}

export type Peer = { readonly node: EnrolmentNode; readonly runId: string; readonly voting: boolean }
