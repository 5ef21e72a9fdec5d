/**
 * Breaks builds, and looks whether a checker notices. A text that does not occur exactly once is an error, never a surviving mutant.
 */

import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { checkDedupRegister } from './checkers/dedup-register.ts'
import {
  checkAnswers,
  checkNothingAfterRecorded,
  checkTokenOrder,
  countExecutions,
} from './checkers/executions.ts'
import { checkFencedMutex } from './checkers/fenced-mutex.ts'
import type { Violation } from './checkers/violation.ts'
import { Clients } from './clients.ts'
import { pause } from './fault.ts'
import { History, monoMs } from './history.ts'
import { MUTANTS, type Mutant, type Replacement } from './mutants.ts'
import { checkWithPorcupine, violationsOf } from './porcupine/porcupine.ts'
import { LEASE_MS, openStage, type Stage } from './stage.ts'
import { TRIAL_SETTINGS, TRIALS, type TrialName } from './trials.ts'

/** Keeps the history of the last scene of each name. */
const HISTORIES = '.tmp/mutants/histories'

/** A scene depends on timing within a deadline: it gets several chances to show the fault of the build. */
const CHANCES = 3

/** @returns the main program of the broken build */
export function build(mutant: Mutant): string {
  const folder = join('.tmp/mutants', mutant.name)
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  cpSync('src', join(folder, 'src'), { recursive: true })
  cpSync('package.json', join(folder, 'package.json'))
  for (const replacement of [mutant, ...(mutant.also === undefined ? [] : [mutant.also])])
    replace(folder, mutant.name, replacement)
  return join(process.cwd(), folder, 'src/main.ts')
}

function replace(folder: string, name: string, { file, from, to }: Replacement): void {
  const path = join(folder, file)
  const source = readFileSync(path, 'utf8')
  if (source.split(from).length !== 2)
    throw new Error(`the rule that ${name} takes out does not stand once in ${file}: ${from}`)
  writeFileSync(
    path,
    source.replace(from, () => to),
  )
}

let keys = 0

export async function runTrial(stage: Stage, name: TrialName): Promise<readonly Violation[]> {
  mkdirSync(HISTORIES, { recursive: true })
  const historyFile = join(HISTORIES, `${name}.jsonl`)
  const history = new History(historyFile)
  const broken: Violation[] = []
  {
    await using clients = new Clients(stage, history)
    await TRIALS[name]({
      stage,
      clients,
      history,
      fraction: Math.random,
      freshKey: () => {
        keys += 1
        return `${name}-${keys}-${process.pid}`
      },
      recentKeys: () => [],
      lose: () => {},
      demand: async (promise, withinMs, condition) => {
        const untilMs = monoMs() + withinMs
        while (!(await condition().catch(() => false))) {
          if (monoMs() >= untilMs) {
            broken.push({ checker: 'progress', key: name, detail: `not within ${withinMs} ms: ${promise}` })
            return
          }
          await pause(50)
        }
      },
    })
  }
  await stage.heal()
  const executions = stage.application.executions().filter(({ startMs }) => startMs >= history.startedMs)
  const { operations } = history
  history.close(executions, LEASE_MS)
  const porcupine = await checkWithPorcupine(historyFile, join(HISTORIES, 'porcupine'))
  const scene = { id: name, what: name, fromMs: history.startedMs, untilMs: monoMs(), bites: 1 }
  return [
    ...broken,
    ...countExecutions(executions, [scene], new Set([name]), 30_000).violations,
    ...checkDedupRegister(operations, executions),
    ...checkFencedMutex(operations),
    ...checkTokenOrder(executions, operations),
    ...checkNothingAfterRecorded(executions, operations),
    ...checkAnswers(executions, operations),
    ...violationsOf(porcupine),
  ]
}

export function openTrialStage(): Promise<Stage> {
  return openStage({ sidecars: 2, settings: TRIAL_SETTINGS })
}

/** @returns the checkers that noticed; empty: the mutant survives */
export async function kill(stage: Stage, mutant: Mutant): Promise<readonly string[]> {
  const main = build(mutant)
  try {
    await stage.restartSidecars({ main })
  } catch (cause) {
    // It never serves: that is a lack of progress, where production starts within seconds on the same stage.
    console.log(`  ${mutant.name}: ${cause instanceof Error ? cause.message.split('\n')[0] : String(cause)}`)
    return mutant.killedBy.filter((checker) => checker === 'progress')
  }
  const seen = new Set<string>()
  for (let chance = 0; chance < CHANCES; chance += 1) {
    const found = await runTrial(stage, mutant.trial)
    for (const { checker } of found)
      if (checker === 'porcupine' || mutant.killedBy.includes(checker)) seen.add(checker)
    const rejected = mutant.porcupine !== 'rejects' || seen.has('porcupine')
    if (rejected && mutant.killedBy.some((one) => seen.has(one))) return [...seen]
    if (found.length > 0)
      console.log(`  ${mutant.name}: noticed by others only: ${JSON.stringify(found.slice(0, 2))}`)
    await stage.ready()
  }
  console.log(`  ${mutant.name}: noticed by ${[...seen].join(', ') || 'no checker'} alone`)
  return []
}

export async function killAll(only?: readonly string[]): Promise<number> {
  await using stage = await openTrialStage()
  let wrong = 0
  for (const name of Object.keys(TRIALS) as TrialName[]) {
    if (only !== undefined && !MUTANTS.some((one) => one.trial === name && only.includes(one.name))) continue
    const found = await runTrial(stage, name)
    wrong += found.length
    console.log(
      `${name}: the build of production ${found.length === 0 ? 'comes through' : JSON.stringify(found)}`,
    )
    await stage.ready()
  }
  const mutants = MUTANTS.filter(({ name }) => only === undefined || only.includes(name))
  let killed = 0
  for (const mutant of mutants) {
    const by = await kill(stage, mutant)
    if (by.length > 0) killed += 1
    console.log(`${mutant.name}: ${by.length > 0 ? `killed by ${by.join(', ')}` : 'LIVES'}`)
  }
  console.log(`${killed}/${mutants.length} killed`)
  return killed === mutants.length && wrong === 0 ? 0 : 1
}
