/**
 * The fourteen broken builds: copies of `src/` with one rule of the protocol taken out, each killed by a named checker.
 *
 * Owns the list, and how a build is broken: one text of a file is replaced, or two where a rule is enforced twice. A
 * text that does not occur exactly once is an error, never a surviving mutant. The simulation has its own mutants of
 * rules in the core (`test/simulation/mutants.ts`); these are whole sidecars on real nodes, with the rules in Lua among
 * them.
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
import { checkWithPorcupine, violationsOf } from './porcupine/porcupine.ts'
import { LEASE_MS, openStage, type Stage } from './stage.ts'
import { TRIAL_SETTINGS, TRIALS, type TrialName } from './trials.ts'

type Replacement = { readonly file: string; readonly from: string; readonly to: string }

export type Mutant = Replacement & {
  readonly name: string
  /** What the build does wrong. */
  readonly does: string
  /** Where a rule is enforced in two places. */
  readonly also?: Replacement
  readonly trial: TrialName
  /** One of these checkers must notice. */
  readonly killedBy: readonly string[]
  /** Whether Porcupine must reject its history, or why that is not to be seen in it. */
  readonly porcupine: 'rejects' | { readonly notVisible: string }
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'release-without-owner',
    does: 'deletes a lease without asking whose it is',
    file: 'src/redis/lua/release.lua',
    from: "if record.state ~= 'C' or record.fence ~= token or record.owner ~= owner then",
    to: "if record.state ~= 'C' then",
    trial: 'stale-release',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'no-validity-check',
    does: 'hands out a claim that took longer to get than it lasts, and begins work under it',
    file: 'src/core/claims/claim.ts',
    from: '  if (leftMs > 0) {',
    to: '  if (lease.attempt > 0) {',
    // Checked once more before the work begins.
    also: {
      file: 'src/core/claims/lease-renewer.ts',
      from: "return this.#state === 'keeping' && this.#keepableMs() > 0",
      to: 'return true',
    },
    trial: 'dead-grant',
    killedBy: ['carried-out-after-recorded', 'token-order'],
    porcupine: 'rejects',
  },
  {
    name: 'quorum-of-two',
    does: 'counts two votes of five as a majority',
    file: 'src/redlock/rounds.ts',
    from: 'return round.decided(await vote(round))',
    to: 'return round.decided((await vote(round)) || (await round.settled, round.votesFor >= 2))',
    trial: 'split',
    killedBy: ['interval-overlap', 'dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'naive-token',
    does: 'grants a token below one that was granted before',
    file: 'src/redis/lua/claim.lua',
    from: "if record.state == 'R' then\n    if token <= record.fence then return { STALE, record.fence } end",
    to: "if record.state == 'R' then",
    trial: 'clock-behind',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'token-is-the-clock',
    does: 'proposes the time as the token, whatever was seen',
    file: 'src/core/record/token.ts',
    from: 'this.#last = Math.max(near, this.#last + 1, this.#above(above))',
    to: 'this.#last = tokenAt(this.#clock.wallMs() + 0 * above)',
    trial: 'clock-behind',
    killedBy: ['progress'],
    porcupine: { notVisible: 'nothing is granted: a refusal breaks no order' },
  },
  {
    name: 'record-before-the-end',
    does: 'records an answer whose body was cut',
    file: 'src/upstream/application.ts',
    from: 'return failureOf(error instanceof Error ? error : new Error(String(error)), true)',
    to: "return error === undefined ? failureOf(new Error(''), true) : { kind: 'answered', response: { status, headers: headers.filter(([name]) => name !== 'content-length'), body: kept.whole() } }",
    trial: 'half-answer',
    killedBy: ['whole-answers'],
    porcupine: 'rejects',
  },
  {
    name: 'unconditional-completion',
    does: 'writes an outcome over whatever stands',
    file: 'src/redis/lua/complete.lua',
    from: 'local takes = token > record.fence or ours',
    to: 'local takes = true',
    trial: 'late-completion',
    killedBy: ['dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'single-node-fallback',
    does: 'falls back to what can be reached when the quorum is lost',
    file: 'src/core/claims/claim.ts',
    from: '  const refusal = await explain(round, request)\n',
    to: "  const refusal = await explain(round, request)\n  if (refusal.kind === 'unavailable' && refusal.answered > 0 && round.answers.some((answer) => answer?.kind === 'granted')) return settleGrant(proposal, round, ports)\n",
    trial: 'split',
    killedBy: ['interval-overlap', 'counting'],
    porcupine: 'rejects',
  },
  {
    name: 'no-release-between-retries',
    does: 'leaves what a lost round was granted',
    file: 'src/core/claims/claim.ts',
    from: '  await releaseGranted(proposal, round, ports)\n  return stepAfter(refusal, round, ports)',
    to: '  return stepAfter(refusal, round, ports)',
    trial: 'leftovers',
    killedBy: ['progress'],
    porcupine: { notVisible: 'what stays behind only refuses, until its lease ends' },
  },
  {
    name: 'renewal-past-larger-fence',
    does: 'renews a lease although a larger token was granted',
    file: 'src/redis/lua/renew.lua',
    from: 'if token < record.fence then return { LOST, record.fence } end',
    to: '',
    trial: 'stale-renewal',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'validity-by-wall-clock',
    does: 'measures validity on the wall clock alone',
    file: 'src/core/claims/lease.ts',
    from: 'return Math.min(lease.validUntilMonoMs - at.monoMs, lease.validUntilWallMs - at.wallMs)',
    to: 'return lease.validUntilWallMs - at.wallMs',
    trial: 'dead-grant',
    killedBy: ['carried-out-after-recorded', 'token-order'],
    porcupine: 'rejects',
  },
  {
    name: 'no-tenant-in-the-key',
    does: 'keys records without the tenant',
    file: 'src/core/request/identity.ts',
    from: 'encoded.push(name)',
    to: "encoded.push(part === 'tenant' ? 'x' : name)",
    trial: 'two-tenants',
    killedBy: ['scope', 'dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'both-of-one-name',
    does: 'lets two servers vote under one name',
    file: 'src/core/nodes/enroller.ts',
    from: 'const other = this.#continuity.duplicateOf(member)\n',
    to: 'const other = options.watchOnly === true ? this.#continuity.duplicateOf(member) : undefined\n',
    // Of two that vote one is given up.
    also: {
      file: 'src/core/nodes/node-history.ts',
      from: 'return other?.lives === true && yieldsTo(',
      to: "return other?.nonce === '' && yieldsTo(",
    },
    trial: 'two-servers',
    killedBy: ['dedup-register', 'counting'],
    porcupine: 'rejects',
  },
  {
    name: 'trusted-return',
    does: 'counts a server that has its name back with the data of before',
    file: 'src/core/nodes/node-history.ts',
    from: 'usedMs(other) > lastMs',
    to: 'usedMs(other) < 0 * lastMs',
    trial: 'name-back',
    killedBy: ['dedup-register', 'counting'],
    porcupine: 'rejects',
  },
]

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
