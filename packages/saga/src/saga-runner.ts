/**
 * Drives sagas: forward step by step, back step by step, or parked for a person when neither is possible.
 *
 * Owns the decisions; the steps own what is safe to repeat. A runner may die anywhere: its lease expires, another one
 * takes the saga and repeats the step in progress, under the same keys.
 *
 *     running      step done → next · refused before the pivot, or attempts exhausted → compensating · fault → later
 *     compensating step undone → the previous one · fault → later, and after many: parked
 *
 * Nothing is repeated for ever (`saga-failures.ts`).
 */
import { keepProcessAlive } from './ambient.ts'
import { messageDrivenKeepMs } from './choreography.ts'
import type { Backoff } from './core.ts'
import type { Tx } from './database.ts'
import { errorText } from './error-meaning.ts'
import {
  AttemptsExhaustedError,
  SagaConfigError,
  StepIrreversibleError,
  StepSuspendedError,
} from './errors.ts'
import { type Housekeeping, startHousekeeping } from './housekeeping.ts'
import { dayMs } from './idempotency.ts'
import type { SagaKit } from './kit.ts'
import type { LockManager } from './locks.ts'
import { outsideTransactions } from './open-transactions.ts'
import { requireBackoff, requireNotNegative, requirePositive, requireWhole } from './option-checks.ts'
import {
  type AnyStep,
  compensationOf,
  contextOf,
  type SagaDefinition,
  type SagaPart,
  stepHandlers,
} from './saga-definition.ts'
import {
  type Failing,
  isExhausted,
  isNoFailure,
  laterMove,
  laterOrParked,
  notOurs,
  turnedBack,
  unknownStep,
} from './saga-failures.ts'
import {
  type DrivenBy,
  insertSaga,
  keepSaga,
  type Move,
  moveSaga,
  type SagaView,
  type StartSaga,
  stepsOf,
  type Taken,
  takeSagas,
} from './saga-instances.ts'
import { type Following, runSagaStep, undoSagaStep } from './saga-step.ts'
import { requireSetUp } from './setup-errors.ts'
import { inProcessSpan } from './trace-context.ts'

// biome-ignore lint/suspicious/noExplicitAny: the inputs of different sagas have nothing in common
type AnyDefinition = SagaDefinition<any, boolean>

export type SagaRunnerOptions<D extends AnyDefinition = AnyDefinition> = RunnerSettings & {
  readonly definitions: readonly D[]
} & (true extends D['locks'] ? { readonly lockManager: LockManager } : { readonly lockManager?: LockManager })

type RunnerSettings = {
  readonly kit: SagaKit
  /** Executes the compensations that operators request of sagas that messages drive. */
  readonly parts?: readonly SagaPart[]
  /** Sagas in progress at once. Default 10. */
  readonly concurrency?: number
  /** Between two polls for sagas that are due. Default 100. */
  readonly pollIntervalMs?: number
  readonly backoff?: Backoff
  /** A saga's lease is its step's plus this, for the time between steps. Default 5 s. */
  readonly marginMs?: number
  /** How long a finished saga remains readable. Default 30 days. */
  readonly keepMs?: number
}

export interface SagaRunner extends AsyncDisposable {
  /** Begins a saga when `tx` commits; false if it exists already. */
  begin(tx: Tx, name: string, saga: StartSaga): Promise<boolean>
  begin<I>(tx: Tx, definition: SagaDefinition<I, boolean>, saga: StartSaga<NoInfer<I>>): Promise<boolean>
  start(): void
  /** Advances every saga that is due now, as far as it can go; returns how many sagas moved. */
  runOnce(): Promise<number>
  /** Ends after the steps in progress. */
  stop(): Promise<void>
}

export function createSagaRunner<D extends AnyDefinition>(options: SagaRunnerOptions<D>): SagaRunner {
  return new Runner(options as SagaRunnerOptions)
}

const defaultLeaseMs = 30_000

type Next = 'go on' | Move

/** The runner moves the saga's row itself. */
const byRunner: Following = async () => {}

class Runner implements SagaRunner {
  readonly #kit: SagaKit
  readonly #definitions: ReadonlyMap<string, AnyDefinition>
  readonly #parts: ReadonlyMap<string, AnyDefinition>
  readonly #lockManager: LockManager | undefined
  readonly #concurrency: number
  readonly #pollIntervalMs: number
  readonly #failing: Failing
  readonly #marginMs: number
  readonly #takeMs: number
  readonly #keepMs: number
  readonly #me: string
  readonly #running = new Set<Promise<void>>()
  #loop: Promise<void> | undefined
  #housekeeping: Housekeeping | undefined
  #stopped = false
  #wake = Promise.withResolvers<void>()

  constructor(options: SagaRunnerOptions) {
    this.#kit = options.kit
    this.#definitions = new Map(options.definitions.map((definition) => [definition.name, definition]))
    this.#parts = new Map(options.parts?.map((part) => [part.name, part]))
    this.#lockManager = options.lockManager
    for (const { name, steps } of options.definitions)
      for (const step of steps)
        if (step.resources !== undefined && options.lockManager === undefined)
          throw new SagaConfigError(
            `step ${step.name} of saga ${name} names resources, and the runner has no lockManager (createPostgresLocks(kit), createQuorumLocks(client))`,
          )
    this.#concurrency = options.concurrency ?? 10
    this.#pollIntervalMs = options.pollIntervalMs ?? 100
    this.#failing = { kit: options.kit, backoff: options.backoff ?? { initialMs: 200, maxMs: 60_000 } }
    this.#marginMs = options.marginMs ?? 5_000
    requireWhole({ concurrency: this.#concurrency })
    requirePositive({ pollIntervalMs: this.#pollIntervalMs })
    requireBackoff('backoff', this.#failing.backoff)
    requireNotNegative({ marginMs: this.#marginMs })
    const leases = [...this.#definitions.values(), ...this.#parts.values()].flatMap(({ steps }) =>
      steps.map(({ leaseMs = defaultLeaseMs }) => leaseMs),
    )
    this.#takeMs = Math.max(...leases) + this.#marginMs
    this.#keepMs = options.keepMs ?? 30 * dayMs
    requireNotNegative({ keepMs: this.#keepMs })
    this.#me = `runner-${options.kit.random.hex(8)}`
  }

  async begin(tx: Tx, which: string | AnyDefinition, saga: StartSaga): Promise<boolean> {
    const name = typeof which === 'string' ? which : which.name
    const { steps } = this.#definitionOf(name)
    return insertSaga(
      this.#kit,
      tx,
      name,
      steps.map((step) => step.name),
      saga,
    )
  }

  start(): void {
    if (this.#stopped) return
    this.#housekeeping ??= startHousekeeping(this.#kit)
    this.#loop ??= outsideTransactions(() => this.#run())
  }

  async stop(): Promise<void> {
    this.#stopped = true
    this.#wake.resolve()
    await this.#loop
    await Promise.all([...this.#running, this.#housekeeping?.stop()])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }

  async runOnce(): Promise<number> {
    let moved = 0
    for (;;) {
      const taken = await this.#take(this.#concurrency)
      if (taken.length === 0) return moved
      moved += taken.length
      await Promise.all(taken.map((saga) => this.#advance(saga)))
    }
  }

  async #run(): Promise<void> {
    const release = keepProcessAlive()
    while (!this.#stopped) {
      this.#wake = Promise.withResolvers<void>()
      const room = this.#concurrency - this.#running.size
      const taken = room > 0 ? await this.#take(room).catch((error: unknown) => this.#report(error)) : []
      for (const saga of taken) {
        const done = this.#advance(saga).catch((error: unknown) => void this.#report(error))
        this.#running.add(done)
        void done.then(() => {
          this.#running.delete(done)
          this.#wake.resolve()
        })
      }
      const timer = this.#kit.clock.timer(this.#pollIntervalMs, () => this.#wake.resolve())
      await this.#wake.promise
      timer.cancel()
    }
    release()
  }

  async #take(limit: number): Promise<readonly Taken[]> {
    // On tables of before, effects would be carried out whose steps can't be noted.
    await requireSetUp(this.#kit)
    const names = { definitions: [...this.#definitions.keys()], parts: [...this.#parts.keys()] }
    return takeSagas(this.#kit, this.#me, names, this.#takeMs, limit)
  }

  #report(error: unknown): readonly Taken[] {
    this.#kit.emit({ kind: 'saga_error', error })
    return []
  }

  #definitionOf(name: string, drivenBy: DrivenBy = 'runner'): AnyDefinition {
    const definition = (drivenBy === 'runner' ? this.#definitions : this.#parts).get(name)
    if (definition === undefined) throw new SagaConfigError(`no saga is defined by the name ${name}`)
    return definition
  }

  /** Advances the saga as far as it can go now, then releases the instance in its new state. */
  #advance(saga: Taken): Promise<void> {
    return inProcessSpan(saga.headers, `saga ${saga.name}`, saga.sagaId, async () => {
      const definition = this.#definitionOf(saga.name, saga.drivenBy)
      const move = await (saga.status === 'compensating'
        ? this.#back(definition, saga)
        : ((await turnedBack(this.#kit, definition, saga)) ?? this.#forward(definition, saga)))
      if (move === undefined || !(await moveSaga(this.#kit, this.#me, saga, move))) return
      this.#kit.emit({ kind: 'saga_advanced', sagaId: saga.sagaId, name: saga.name, status: move.status })
      if (move.status === 'parked')
        this.#kit.emit({ kind: 'parked', what: `saga ${saga.sagaId}`, error: move.lastError ?? move.reason })
    })
  }

  /** undefined if the saga is no longer ours. */
  async #forward(definition: AnyDefinition, taken: Taken): Promise<Move | undefined> {
    let saga = taken
    for (const [index, step] of definition.steps.entries()) {
      const log = await stepsOf(this.#kit, saga.sagaId)
      const strange = unknownStep(definition, log, ['pending', 'running'])
      if (strange !== undefined) return laterOrParked(this.#failing, saga, strange.name, notOurs(strange))
      const status = log.find(({ name }) => name === step.name)?.status
      // Without a row it was added to the definition since: a saga has the steps with which it was begun.
      if (status === undefined || status === 'done') continue
      if (!(await this.#keep(saga, step))) return undefined
      if (this.#stopped) return { status: 'running', attempts: saga.attempts }
      const next = await this.#forwardOne(definition, index, saga, log)
      if (next !== 'go on') return next
      saga = { ...saga, attempts: 0 }
    }
    return { status: 'completed', attempts: 0, keepMs: this.#keepMs }
  }

  async #forwardOne(
    definition: AnyDefinition,
    index: number,
    saga: Taken,
    log: SagaView['steps'],
  ): Promise<Next> {
    const step = definition.steps[index]!
    const context = contextOf(saga, log)
    const pivot = definition.steps.find((one) => one.pivot === true)
    const decided = log.some(({ name, status }) => name === pivot?.name && status === 'done')
    const turnBack = (reason: string): Move =>
      decided ? { status: 'parked', attempts: 0, reason } : { status: 'compensating', attempts: 0, reason }
    let claimed = false
    const noteClaim: Following = async () => {
      claimed = true
    }
    try {
      const request = {
        sagaId: saga.sagaId,
        step: step.name,
        request: saga.input,
        leaseMs: step.leaseMs ?? defaultLeaseMs,
        position: index + 1,
        ...(step.maxAttempts === undefined ? {} : { maxAttempts: step.maxAttempts }),
      }
      const [lockManager, resources] = [this.#lockManager, step.resources?.(context)]
      const outcome = await runSagaStep(
        this.#kit,
        lockManager === undefined || resources === undefined
          ? request
          : { ...request, resources, lockManager },
        stepHandlers(step, context),
        noteClaim,
      )
      return outcome.outcome === 'completed'
        ? 'go on'
        : turnBack(`${step.name}: ${JSON.stringify(outcome.result)}`)
    } catch (error) {
      if (error instanceof StepSuspendedError || error instanceof AttemptsExhaustedError)
        return turnBack(errorText(error))
      const counts = !claimed && !isNoFailure(error)
      const exhausted = counts && (await isExhausted(this.#kit, saga.sagaId, step, error))
      const later = laterMove(this.#failing, saga, step.name, error)
      return exhausted ? turnBack(`${step.name}: ${errorText(error)}`) : later
    }
  }

  async #back(definition: AnyDefinition, taken: Taken): Promise<Move | undefined> {
    let saga = taken
    const log = await stepsOf(this.#kit, saga.sagaId)
    const strange = unknownStep(definition, log, ['pending', 'running', 'done', 'compensating'])
    if (strange !== undefined) return laterOrParked(this.#failing, saga, strange.name, notOurs(strange))
    const context = contextOf(saga, log)
    // The pivot first: if it was executed, no earlier step is undone.
    const steps = [...definition.steps.entries()].reverse()
    steps.sort(([, a], [, b]) => Number(b.pivot === true) - Number(a.pivot === true))
    for (const [index, step] of steps) {
      if (!(await this.#keep(saga, step))) return undefined
      if (this.#stopped) return { status: 'compensating', attempts: saga.attempts }
      try {
        await undoSagaStep(
          this.#kit,
          {
            sagaId: saga.sagaId,
            step: step.name,
            leaseMs: step.leaseMs ?? defaultLeaseMs,
            position: index + 1,
            ...(step.pivot === true ? { irreversible: step.effect === undefined ? 'done' : 'begun' } : {}),
          },
          compensationOf(step, context),
          byRunner,
        )
      } catch (error) {
        if (error instanceof AttemptsExhaustedError)
          return { status: 'parked', attempts: saga.attempts, lastError: errorText(error.cause ?? error) }
        if (error instanceof StepIrreversibleError)
          return { status: 'parked', attempts: 0, lastError: error.message }
        return laterOrParked(this.#failing, saga, step.name, error)
      }
      const before = log.find(({ name }) => name === step.name)?.status
      if (before !== 'compensated' && before !== 'suspended') saga = { ...saga, attempts: 0 }
    }
    const keepMs = saga.drivenBy === 'runner' ? this.#keepMs : Math.max(this.#keepMs, messageDrivenKeepMs)
    return { status: 'compensated', attempts: 0, keepMs }
  }

  #keep(saga: Taken, step: AnyStep): Promise<boolean> {
    return keepSaga(this.#kit, this.#me, saga, (step.leaseMs ?? defaultLeaseMs) + this.#marginMs)
  }
}
