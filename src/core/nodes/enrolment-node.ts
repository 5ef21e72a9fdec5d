/** A node as enrolment sees it: the port between what has to be done and whatever the nodes are. */

import type { Merged, RecordSnapshot } from '../record/record-merge.ts'
import type { Cluster, CopyProgress, Origin } from './enrolment-rules.ts'

/** What one node has of some records. */
export type Inspection = {
  /** It was enrolled when it answered: what it does not show it never knew. */
  readonly voting: boolean
  /** One entry a key, in order; undefined: it has none. `damaged` where it can't be read. */
  readonly snapshots: readonly (SizedSnapshot | 'damaged' | undefined)[]
}

/** `sizeBytes`: how large it is with its outcome, where the node says so. */
export type SizedSnapshot = RecordSnapshot & { readonly sizeBytes?: number }

export type Adoption = { readonly key: string; readonly merged: Merged }

/** A node as enrolment sees it. Everything may reject; nothing may be carried out on another run of the node's process. */
export interface EnrolmentNode {
  readonly name: string
  /** Lets the quarantine begin, where none stands for this run of the node; an existing one only becomes `forgot`. */
  begin(nonce: string, origin: Origin): Promise<void>
  /** Lets it begin anew. */
  restart(nonce: string, nextNonce: string): Promise<void>
  /** False where the nonce does not stand any more. */
  save(nonce: string, progress: CopyProgress): Promise<boolean>
  /** Sets the epoch, where the nonce still stands. */
  enrol(nonce: string, cluster: Cluster): Promise<boolean>
  /** Some of its keys, and how to ask for more; `FIRST_CURSOR` at the end. A key that stays is shown at least once. */
  keys(cursor: string): Promise<{ readonly keys: readonly string[]; readonly cursor: string }>
  /** @param whole with outcomes; else records show an empty one */
  inspect(keys: readonly string[], whole: boolean): Promise<Inspection>
  /** Tells it records, all or none: rejects, and changes nothing, where the nonce does not stand at that moment (`mayBeTold`). */
  adopt(nonce: string, adoptions: readonly Adoption[]): Promise<void>
  /**
   * Claims the node for the founding of a new cluster, for a while. False where it is claimed already, or does not wait as a new one
   * under the nonce that was proposed any more: from here on nobody can object.
   */
  claimFounding(nonce: string, proposed: string): Promise<boolean>
  /** Sets the first epoch, where the claim still stands and there is none. */
  found(nonce: string, cluster: Cluster): Promise<boolean>
  abandonFounding(nonce: string): Promise<void>
}

export type Peer = { readonly node: EnrolmentNode; readonly runId: string; readonly voting: boolean }
