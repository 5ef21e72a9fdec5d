/**
 * Many histories over some workers: the sights of all of them, and the smallest seed that broke a promise.
 *
 * Owns the shares: each worker gets the next few seeds when it has done the last ones, and the results are merged in
 * the order of the seeds. So the report is the same whatever the number of workers, a failure included: histories
 * beyond the first failing seed are left out.
 */

import { Worker } from 'node:worker_threads'
import { type Share, type ShareDone, WORKER_URL, type WorkerSetting } from './campaign-worker.ts'
import { SIGHTS, type Sight, type Violation } from './history.ts'

export type Failure = { readonly seed: number; readonly violations: readonly Violation[] }

export type Report = {
  readonly histories: number
  readonly seen: ReadonlyMap<Sight, number>
  readonly failure: Failure | undefined
  readonly tookMs: number
}

export type CampaignOptions = {
  readonly from: number
  readonly histories: number
  readonly workers: number
  readonly mutant: string | undefined
  /** The only situation that plans follow. */
  readonly only?: string | undefined
  readonly withinMs: number
  readonly onProgress: (report: Report) => void
}

/** A history takes some two milliseconds: small enough for a limit of time, large enough to hand out. */
const SHARE = 100

const PROGRESS_EVERY = 2_000

/** Ends at the first failure. */
export async function campaign(options: CampaignOptions): Promise<Report> {
  const { from, histories, withinMs, onProgress } = options
  const startedMs = performance.now()
  const seen = new Map<Sight, number>()
  const done = new Map<number, ShareDone>()
  let [handedOut, counted] = [0, 0]
  let failure: Failure | undefined
  /** No history beyond it counts. */
  let end = histories
  const report = (): Report => ({ histories: counted, seen, failure, tookMs: performance.now() - startedMs })

  function nextShare(): Share | undefined {
    if (performance.now() - startedMs > withinMs) end = Math.min(end, handedOut)
    if (handedOut >= end) return undefined
    const share = { at: handedOut, from: from + handedOut, histories: Math.min(SHARE, end - handedOut) }
    handedOut += share.histories
    return share
  }

  function take(share: ShareDone): void {
    done.set(share.at, share)
    if (share.failure !== undefined) end = Math.min(end, share.at + share.histories)
    for (
      let next = done.get(counted);
      next !== undefined && failure === undefined;
      next = done.get(counted)
    ) {
      done.delete(counted)
      for (const [sight, count] of next.seen) seen.set(sight, (seen.get(sight) ?? 0) + count)
      const before = counted
      counted += next.histories
      failure = next.failure
      if (Math.floor(counted / PROGRESS_EVERY) > Math.floor(before / PROGRESS_EVERY)) onProgress(report())
    }
  }

  const setting: WorkerSetting = { mutant: options.mutant, only: options.only }
  const workers = Array.from(
    { length: options.workers },
    () => new Worker(WORKER_URL, { workerData: setting }),
  )
  try {
    await Promise.all(workers.map((worker) => occupy(worker, nextShare, take, () => counted >= end)))
  } finally {
    await Promise.all(workers.map((worker) => worker.terminate()))
  }
  return report()
}

/** Hands shares to one worker until none are left, or a failure of another worker ends the campaign. */
function occupy(
  worker: Worker,
  nextShare: () => Share | undefined,
  take: (share: ShareDone) => void,
  isOver: () => boolean,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const handOut = () => {
      const share = nextShare()
      if (share === undefined) resolve()
      else worker.postMessage(share)
    }
    worker.on('message', (share: ShareDone) => {
      take(share)
      if (isOver()) resolve()
      else handOut()
    })
    worker.on('error', reject)
    worker.on('exit', () => reject(new Error('a worker of the campaign ended')))
    handOut()
  })
}

/** The sights that are missing: a campaign that misses any proves less than it says, and is invalid. */
export function unseen(report: Report): readonly Sight[] {
  return SIGHTS.filter((sight) => (report.seen.get(sight) ?? 0) === 0)
}
