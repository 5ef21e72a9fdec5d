/** Keys on a node that belong to no request. Their tenant part is empty, which no request's key can have. */

import type { AuditStream } from '../core/coordination/audit-log.ts'

/** Says that this node has joined, and since when. */
export const INCARNATION_KEY = 'dedup::incarnation'

/** A hash: the quarantine of a node that has no incarnation for its present run, and how far its rejoin has come. */
export const QUARANTINE_KEY = 'dedup::quarantine'

/** A hash: what all nodes of one cluster have in common. */
export const CLUSTER_KEY = 'dedup::cluster'

/** A hash: the node's own time, written while it votes, and the newest such times of other nodes. */
export const HEARTBEAT_KEY = 'dedup::heartbeat'

/** The sidecar that founds all nodes of a brand-new cluster just now. */
export const FOUNDER_KEY = 'dedup::founder'

/** The sidecar that copies records to this node just now. */
export const REJOIN_KEY = 'dedup::rejoin'

/** Never written. A script that deletes it has written, and Redis lets such a script go on when out of memory. */
export const NOTHING_KEY = 'dedup::nothing'

/** With any suffix: claims of a starting sidecar, so that its code is compiled when requests come. */
export const WARM_UP_KEY = 'dedup::warm-up:'

/** With any suffix: synthetic claims that measure the nodes while there is little traffic. */
export const PROBE_KEY = 'dedup::probe:'

/** Streams of the audit log: dead letters and audit. */
export function auditStreamKey(stream: AuditStream): string {
  return `dedup::${stream}`
}

/** Says that an entry of the audit log was written to this node. */
export function auditMark(stream: AuditStream, id: string): string {
  return `dedup::${stream}:${id}`
}

/** The name of the sidecar whose claims have this mark. */
export function sidecarNameKey(mark: string): string {
  return `dedup::sidecar:${mark}`
}

/** The queue of those who wait for a record. */
export function waitQueueKey(recordKey: string): string {
  return `dedup::line:${recordKey}`
}

/** The record whose holder leads, and sweeps. */
export const SWEEPER_LEADERSHIP = 'dedup::office:sweeper'

/** Matches the records of requests and none of the keys above. */
export const RECORD_PATTERN = 'dedup:[^:]*'
