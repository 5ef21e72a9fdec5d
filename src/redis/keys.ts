/** Keys on a node that belong to no request. Their tenant part is empty, which no request's key can have. */

/** Says that this node is enrolled, and since when: {@link import('./enrolment.ts')}. */
export const EPOCH_KEY = 'dedup::epoch'
