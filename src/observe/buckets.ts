/** Bounds of the histograms, in seconds. */

export const BUCKETS_S = {
  /** Contain 0.05 (the latency alert) and 0.15 (the readiness gate) exactly, so that neither is interpolated. */
  acquire: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1, 5],
  /** Coarser: most of a request's time is the application's. */
  request: [0.005, 0.05, 0.15, 0.5, 5],
  /** Contains the default deadline of a node, 0.08, between its last two. */
  node: [0.001, 0.005, 0.025, 0.05, 0.1],
  hold: [0.05, 0.5, 1, 5, 60],
  remaining: [0, 0.5, 2.5, 5],
}
