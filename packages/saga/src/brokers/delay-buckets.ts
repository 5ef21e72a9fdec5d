/**
 * Fixed delays for brokers that can't delay a single message: the largest one that is not above the requested delay.
 *
 * A message that returns too early does no harm: the inbox knows when its next attempt is due, and sends it away again.
 * A queue for every possible delay would do harm.
 */
export const delayBucketsMs = [100, 1_000, 5_000, 30_000, 300_000] as const

export function delayBucketMs(delayMs: number): number {
  return delayBucketsMs.findLast((bucketMs) => bucketMs <= delayMs) ?? delayBucketsMs[0]
}
