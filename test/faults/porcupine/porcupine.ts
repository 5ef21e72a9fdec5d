/**
 * Checks the history of a fault run with an independent checker: Porcupine, with the models of `*.go` beside this file.
 *
 * Owns building it (with Go, once for each state of its sources, into the cache of fetched programs) and running it.
 * The models state what is promised of a key.
 */

import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { builtWithGo } from '../../support/fetched-programs.ts'
import type { Violation } from '../checkers/violation.ts'

const SOURCES = fileURLToPath(new URL('.', import.meta.url))

/** For one key: beyond it the key is undecided, which fails the run. */
const KEY_SECONDS_MAX = 10
/** For all keys together. */
const CHECK_MS_MAX = 300_000

export type PorcupineReport = {
  /** Lines of the history; keys of reservations and of requests; operations of the models. */
  readonly calls: number
  readonly keys: number
  readonly operations: number
  readonly operationsMost: number
  readonly tookMs: number
  readonly violations: readonly {
    readonly kind: 'reservation' | 'request'
    readonly key: string
    readonly result: 'Illegal' | 'Unknown'
    /** The first operation at whose end no order is left. */
    readonly first?: string
    readonly operations: readonly string[]
    readonly drawing?: string
  }[]
}

/** The path of the checker. */
export function porcupineChecker(): Promise<string> {
  return builtWithGo('porcupine-checker', SOURCES, 'checker')
}

/**
 * @param drawings folder for a drawing of each key that is not linearizable
 * @throws where the checker could not be built, or could not read the history
 */
export async function checkWithPorcupine(
  historyFile: string,
  drawings: string,
  keySecondsMax = KEY_SECONDS_MAX,
): Promise<PorcupineReport> {
  const checker = await porcupineChecker()
  const args = ['-limit', `${keySecondsMax}s`, '-draw', drawings, historyFile]
  return new Promise((resolve, reject) => {
    const options = { timeout: CHECK_MS_MAX, killSignal: 'SIGKILL', maxBuffer: 64 * 1024 * 1024 } as const
    execFile(checker, args, options, (error, answered, said) => {
      // 1: a key is not linearizable, and the output names it.
      if (error !== null && error.code !== 1)
        reject(
          new Error(
            `porcupine did not decide about ${historyFile} within ${CHECK_MS_MAX / 1_000} s, or failed: ${said}`,
            {
              cause: error,
            },
          ),
        )
      else resolve(JSON.parse(answered) as PorcupineReport)
    })
  })
}

export function violationsOf({ violations }: PorcupineReport): readonly Violation[] {
  return violations.map(({ kind, key, result, first = 'not decided', operations, drawing }) => ({
    checker: result === 'Illegal' ? 'porcupine' : 'porcupine-undecided',
    key: `${kind} ${key}`,
    detail: `${first}, of: ${operations.join('; ')}${drawing === undefined ? '' : ` (drawn in ${drawing})`}`,
  }))
}
