/**
 * Fixed delays for brokers that cannot delay a single message: the largest one that is not longer than what was asked.
 *
 * Coming back too early is harmless, because the inbox knows when the next attempt is due and sends the message away again;
 * a queue for every possible delay would not be.
 */
export const delayBucketsMs = [100, 1_000, 5_000, 30_000, 300_000] as const

export function delayBucketMs(delayMs: number): number {
  return delayBucketsMs.findLast((bucketMs) => bucketMs <= delayMs) ?? delayBucketsMs[0]
}
