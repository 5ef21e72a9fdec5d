/**
 * A thread of a campaign: runs the histories of its seeds, one after the other, until as many broke a promise as are asked for.
 * A history is drawn from its seed alone, so it is the same in every thread.
 */

import { isMainThread, parentPort, workerData } from 'node:worker_threads'
import type { Failure } from './campaign.ts'
import type { Sight } from './history.ts'

export const WORKER_URL = new URL(import.meta.url)

export type WorkerSetting = {
  readonly mutant: string | undefined
  readonly only: string | undefined
  readonly failuresMax: number
}

export type Share = {
  /** How many histories of the campaign precede this share. */
  readonly at: number
  readonly from: number
  readonly histories: number
}

export type ShareDone = {
  readonly at: number
  /** Up to the last failure that is asked for, where it comes to that. */
  readonly histories: number
  readonly seen: readonly (readonly [Sight, number])[]
  readonly failures: readonly Failure[]
}

if (!isMainThread && parentPort !== null) await work(parentPort, workerData as WorkerSetting)

async function work(port: NonNullable<typeof parentPort>, setting: WorkerSetting): Promise<void> {
  const { mutant, only, failuresMax } = setting
  // A vote against is an exception to redlock: its stack would take most of the time of a history.
  Error.stackTraceLimit = 0
  // A mutant is made while its module is loaded.
  if (mutant !== undefined) (await import('./mutants.ts')).breakWith(mutant)
  const { planOf } = await import('./plan.ts')
  const { runHistory } = await import('./run.ts')
  port.on('message', (share: Share) => void runShare(share).then((done) => port.postMessage(done)))

  async function runShare({ at, from, histories }: Share): Promise<ShareDone> {
    const seen = new Map<Sight, number>()
    const failures: Failure[] = []
    for (let done = 0; done < histories; done += 1) {
      const seed = from + done
      const { violations, seen: sights } = await runHistory(planOf(seed, only))
      for (const [sight, count] of sights) seen.set(sight, (seen.get(sight) ?? 0) + count)
      if (violations.length > 0) failures.push({ seed, violations })
      if (failures.length >= failuresMax) return { at, histories: done + 1, seen: [...seen], failures }
    }
    return { at, histories, seen: [...seen], failures }
  }
}
