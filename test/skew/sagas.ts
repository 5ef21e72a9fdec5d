/**
 * The saga kit of one version on the tables of another: what the earlier kit wrote before the migration, what this one makes of it
 * afterwards, and the earlier kit on the migrated tables, which is the way back.
 */
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import type * as Saga from '@fencepost/saga'
import type * as Mailbox from '@fencepost/saga/mailbox'
import { eventually } from '../support/eventually.ts'
import { type PostgresServer, startPostgres } from '../support/postgres-server.ts'

type Kit = {
  readonly name: string
  readonly saga: typeof Saga
  readonly mailbox: typeof Mailbox
  /** Its consumers work on the tables of the next version. */
  readonly consumesLater: boolean
  /** Its `migrate` accepts these tables. */
  readonly startsOnLater: boolean
}

type Running = { stop(): Promise<unknown> }

/** A relay finds a message of another process by polling, on a busy machine too. */
const PATIENT = { withinMs: 60_000 }

/** One version of the kit on the database, and every effect of its consumers. */
class Service implements AsyncDisposable {
  readonly kit: Saga.SagaKit
  readonly handled: string[]
  readonly #of: Kit
  readonly #relays: Running[] = []
  readonly #consumers: Running[] = []
  readonly errors: string[] = []

  constructor(of: Kit, server: PostgresServer, handled: string[]) {
    this.#of = of
    this.handled = handled
    this.kit = of.saga.createSagaKit({
      pool: server.pool(),
      schema: 'skew',
      events: (event) => {
        if ('error' in event) this.errors.push(`${event.kind}: ${String(event.error)}`)
      },
    })
  }

  migrate() {
    return this.#of.saga.migrate(this.kit)
  }

  once(key: string, result: string) {
    return this.#of.saga.withIdempotency(
      this.kit,
      { scope: 'payments', key, request: { key } },
      async () => result,
    )
  }

  publish(n: string) {
    return this.kit.transaction((tx) =>
      this.#of.saga.publish(this.kit, tx, {
        aggregateType: 'order',
        aggregateId: 'order-1',
        type: 'Paid',
        payload: { n },
        destination: 'billing',
      }),
    )
  }

  relay(): void {
    const publisher = this.#of.mailbox.createMailboxPublisher(this.kit)
    const relay = this.#of.saga.createOutboxRelay({ kit: this.kit, publisher, pollIntervalMs: 20 })
    relay.start()
    this.#relays.push(relay)
  }

  async consume(): Promise<void> {
    const subscriber = this.#of.mailbox.createMailboxSubscriber({
      kit: this.kit,
      queue: 'billing',
      pollIntervalMs: 20,
    })
    const consumer = await this.#of.saga.createConsumer({
      kit: this.kit,
      consumerId: 'billing',
      subscriber,
      handlers: {
        Paid: async (_tx: Saga.Tx, { payload }: { readonly payload: unknown }) => {
          this.handled.push((payload as { n: string }).n)
        },
      },
    } as Parameters<typeof Saga.createConsumer>[0])
    this.#consumers.push(consumer)
  }

  get startsOnLater(): boolean {
    return this.#of.startsOnLater
  }

  get consumesLater(): boolean {
    return this.#of.consumesLater
  }

  async stopConsumers(): Promise<void> {
    await Promise.all(this.#consumers.splice(0).map((one) => one.stop()))
  }

  async stop(): Promise<void> {
    await this.stopConsumers()
    await Promise.all(this.#relays.splice(0).map((one) => one.stop()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

type SagaSteps = { readonly done: readonly string[]; readonly failure: string | undefined }

/** The steps in their order; the first that fails ends them. */
export async function sagasAcross(earlier: Kit, own: Kit): Promise<SagaSteps> {
  await using server = await startPostgres()
  const handled: string[] = []
  await using before = new Service(earlier, server, handled)
  await using after = new Service(own, server, handled)
  const done: string[] = []
  const step = async (name: string, run: () => Promise<unknown>) => {
    await run()
    done.push(name)
  }
  /** Every message until now was handled, each once. */
  const allHandled = (...names: readonly string[]) =>
    eventually(`${names.join(', ')} to be handled`, () => handled.length >= names.length, PATIENT).then(() =>
      deepEqual(handled, names),
    )
  try {
    await upgrade(step, before, after, allHandled, server)
    await back(step, before, after, allHandled, handled)
    return { done, failure: undefined }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    const errors = [...before.errors, ...after.errors].slice(0, 3).join('; ')
    return { done, failure: `after "${done.at(-1) ?? 'the start'}": ${why} ${errors}`.trim() }
  }
}

type Step = (name: string, run: () => Promise<unknown>) => Promise<void>
type AllHandled = (...names: readonly string[]) => Promise<void>

async function upgrade(
  step: Step,
  before: Service,
  after: Service,
  allHandled: AllHandled,
  server: PostgresServer,
): Promise<void> {
  await step('the earlier kit works on its own tables', async () => {
    await before.migrate()
    equal((await before.once('a', 'first')).result, 'first')
    before.relay()
    await before.consume()
    await before.publish('1')
    await allHandled('1')
  })
  await step('it stops with a message in the outbox', async () => {
    await before.stop()
    await before.publish('2')
  })
  const { rows } = await server
    .pool()
    .query<{ version: number }>('SELECT max(version) AS version FROM skew.schema_migrations')
  const applied = await after.kit.transaction(async () => rows[0]!.version)
  await step('this kit migrates: only what is new', async () => {
    const report = await after.migrate()
    ok(report.applied.every((version) => version > applied))
    deepEqual((await after.migrate()).applied, [])
  })
  await step('this kit replays a result that the earlier one recorded', async () => {
    equal((await after.once('a', 'second')).result, 'first')
  })
  await step('this kit relays and handles what the earlier one wrote', async () => {
    after.relay()
    await after.consume()
    await allHandled('1', '2')
  })
  await step('a message that the earlier kit handled is not handled again', async () => {
    await server.pool().query(
      `INSERT INTO skew.mailbox (queue, message_id, body, properties)
       SELECT 'billing', message_id, '{"n":"1"}', jsonb_build_object('fencepost-message-id', message_id,
         'fencepost-type', 'Paid', 'fencepost-aggregate-type', 'order', 'fencepost-aggregate-id', 'order-1',
         'fencepost-created-at', '2026-11-22T00:00:00.000Z')
       FROM skew.inbox ORDER BY arrival LIMIT 1`,
    )
    await eventually('the mailbox to be empty', async () => {
      const left = await server.pool().query('SELECT 1 FROM skew.mailbox')
      return left.rows.length === 0
    })
    await allHandled('1', '2')
  })
}

/** What is promised of the earlier kit on newer tables: docs/operations/upgrading.md, "The way back". */
async function back(
  step: Step,
  before: Service,
  after: Service,
  allHandled: AllHandled,
  handled: readonly string[],
): Promise<void> {
  if (before.startsOnLater)
    await step(
      'the earlier kit, whose services migrate at their start, leaves the newer tables as they are',
      async () => {
        deepEqual((await before.migrate()).applied, [])
      },
    )
  else
    await step('the earlier kit refuses to migrate tables that are newer than it', async () => {
      await rejects(before.migrate(), /migration \d+, which this version of fencepost does not know/)
    })
  await step('both kits publish, and withIdempotency of both answers for both', async () => {
    equal((await after.once('b', 'of this one')).result, 'of this one')
    equal((await before.once('b', 'again')).result, 'of this one')
    equal((await before.once('c', 'of the earlier')).result, 'of the earlier')
    equal((await after.once('c', 'again')).result, 'of the earlier')
    await before.publish('3')
    await after.publish('4')
    await allHandled('1', '2', '3', '4')
  })
  await step('the earlier kit relays on the newer tables', async () => {
    before.relay()
    await before.publish('5')
    await allHandled('1', '2', '3', '4', '5')
    await after.stop()
  })
  await before.consume()
  await before.publish('6')
  if (before.consumesLater)
    await step('the earlier kit handles on the newer tables', () => allHandled('1', '2', '3', '4', '5', '6'))
  else
    await step('the earlier kit, which may not go on, neither handles nor loses a message', async () => {
      await eventually(
        'it to be refused',
        () => before.errors.some((error) => error.includes('consumed')),
        PATIENT,
      )
      await before.stopConsumers()
      await after.consume()
      await allHandled('1', '2', '3', '4', '5', '6')
    })
  await step('no message was handled twice', async () => {
    equal(new Set(handled).size, handled.length)
  })
}
