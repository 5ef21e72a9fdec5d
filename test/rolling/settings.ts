/** Settings of the sidecars while the nodes are rolled. */

/** The default leases; deadlines that a machine busy with other work meets too. */
export const PATIENT = { FENCEPOST_NODE_DEADLINE: '1s', FENCEPOST_CLAIM_BUDGET: '5s' } as const

/**
 * A changed node votes again within about five seconds; deadlines are the largest that such a lease allows, and the
 * budget is how long a machine may pause without failing a request.
 */
export const QUICK = {
  FENCEPOST_NODE_DEADLINE: '200ms',
  FENCEPOST_CLAIM_BUDGET: '5s',
  FENCEPOST_LEASE: '4s',
  FENCEPOST_RESERVATION_MAX_LEASE: '4s',
  FENCEPOST_CLOCK_STEP: '100ms',
} as const
