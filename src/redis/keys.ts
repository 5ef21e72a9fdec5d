/** Keys on a node that belong to no request. Their tenant part is empty, which no request's key can have. */

/** Says that this node is enrolled, and since when: {@link import('./enrolment.ts')}. */
export const EPOCH_KEY = 'dedup::epoch'

/** A hash: the quarantine of a node that has no epoch for its present run, and how far its enrolment has come. */
export const QUARANTINE_KEY = 'dedup::quarantine'

/** A hash: what all nodes of one cluster have in common. */
export const CLUSTER_KEY = 'dedup::cluster'

/** Who is enrolling all nodes of a brand-new cluster just now. */
export const FOUNDER_KEY = 'dedup::founder'

/** Which sidecar copies records to this node just now. */
export const ENROLLER_KEY = 'dedup::enroller'

/** Followed by anything: claims that a sidecar makes while it starts, so that its code is compiled when requests come. */
export const WARM_UP_KEY = 'dedup::warm-up:'

/** Matches the records of requests and none of the keys above. */
export const RECORD_PATTERN = 'dedup:[^:]*'
