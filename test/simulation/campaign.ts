/**
 * Many histories over some workers: the sights of all of them, and the smallest seeds that broke a promise.
 *
 * Owns the shares: each worker gets the next few seeds when it has done the last ones, and the results are merged in
 * the order of the seeds. So the report is the same whatever the number of workers, failures included: histories beyond
 * the last failing seed that is asked for are left out.
 */

import { Worker } from 'node:worker_threads'
import { type Share, type ShareDone, WORKER_URL, type WorkerSetting } from './campaign-worker.ts'
import { SIGHTS, type Sight, type Violation } from './history.ts'

export type Failure = { readonly seed: number; readonly violations: readonly Violation[] }

export type Report = {
  readonly histories: number
  readonly seen: ReadonlyMap<Sight, number>
  readonly failures: readonly Failure[]
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
  /** It ends at so many failures; the default is the first. */
  readonly failuresMax?: number | undefined
  readonly onProgress: (report: Report) => void
}

/** A history takes some ten milliseconds: small enough for a limit of time, large enough to hand out. */
const SHARE = 10

const PROGRESS_EVERY = 2_000

export async function campaign(options: CampaignOptions): Promise<Report> {
  const { from, histories, withinMs, failuresMax = 1, onProgress } = options
  const startedMs = performance.now()
  const seen = new Map<Sight, number>()
  const done = new Map<number, ShareDone>()
  let [handedOut, counted] = [0, 0]
  const failures: Failure[] = []
  /** No history beyond it counts. */
  let end = histories
  const report = (): Report => ({ histories: counted, seen, failures, tookMs: performance.now() - startedMs })

  function nextShare(): Share | undefined {
    if (performance.now() - startedMs > withinMs) end = Math.min(end, handedOut)
    if (handedOut >= end) return undefined
    const share = { at: handedOut, from: from + handedOut, histories: Math.min(SHARE, end - handedOut) }
    handedOut += share.histories
    return share
  }

  function take(share: ShareDone): void {
    done.set(share.at, share)
    // It alone has as many as are asked for, so that nothing beyond it is needed.
    if (share.failures.length >= failuresMax) end = Math.min(end, share.at + share.histories)
    for (
      let next = done.get(counted);
      next !== undefined && failures.length < failuresMax;
      next = done.get(counted)
    ) {
      done.delete(counted)
      for (const [sight, count] of next.seen) seen.set(sight, (seen.get(sight) ?? 0) + count)
      const before = counted
      counted += next.histories
      failures.push(...next.failures)
      if (failures.length >= failuresMax) end = Math.min(end, counted)
      if (Math.floor(counted / PROGRESS_EVERY) > Math.floor(before / PROGRESS_EVERY)) onProgress(report())
    }
  }

  const setting: WorkerSetting = { mutant: options.mutant, only: options.only, failuresMax }
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
