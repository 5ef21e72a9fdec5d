/**
 * `fencepost saga migrate | plans | lag | list | show | retry | compensate | dead-letters | retention`: an operator's commands
 * for the tables of the saga kit.
 *
 * Owns the words on the terminal. It needs only the database, no sidecar: `--database` or DATABASE_URL; in the pod of a sidecar,
 * which has no shell to set one with, it is the database of its settings.
 */

import {
  compensateSaga,
  discardDeadLetters,
  getSaga,
  listDeadLetters,
  listSagas,
  migrate,
  outboxLag,
  plans,
  replayDeadLetters,
  retrySaga,
  runRetention,
  type SagaKit,
  SagaKitError,
  type SagaStatus,
} from '@fencepost/saga'
import { explained, openSagaKit } from '@fencepost/saga/admin'
import { InvalidArgumentError, Option, type Command as Parser } from 'commander'
import { loadConfig } from '../config/load.ts'
import { type Command, EXIT, type ExitCode, type Io, withArguments } from './command.ts'

type Where = { readonly database?: string; readonly schema?: string }
type OnKit = (kit: SagaKit) => Promise<ExitCode>

export const saga: Command = (args, io) =>
  withArguments('saga', args, io, (parser, done) => {
    parser
      .description('Looks after the tables of the saga kit (docs/guide/saga.md).')
      .option(
        '--database <url>',
        'postgres://user:password@host/database; default: DATABASE_URL, else that of the settings of a sidecar (FENCEPOST_SAGA_DATABASE_FILE)',
      )
      .option('--schema <name>', 'of the tables; default: FENCEPOST_SAGA_SCHEMA, else fencepost')
    const on = async (act: OnKit, partitions?: number) =>
      done(await onKit(io, parser.opts<Where>(), act, partitions))
    const print = (value: unknown) => void io.stdout.write(`${JSON.stringify(value, undefined, 2)}\n`)

    parser
      .command('migrate')
      .description('bring the tables to this version; forward only')
      .option('--dry-run', 'say what would be applied')
      .option(
        '--partitions <count>',
        'of the outbox, as the services have it (default: as it is, 16 where there is none)',
        Number,
      )
      .action(({ dryRun, partitions }: { dryRun?: true; partitions?: number }) =>
        on(async (kit) => {
          const report = await migrate(kit, {
            dryRun: dryRun === true,
            keepPartitions: partitions === undefined,
          })
          const list = report.applied.length === 0 ? 'nothing' : report.applied.join(', ')
          io.stdout.write(`${dryRun ? 'would apply' : 'applied'}: ${list}; version ${report.version}\n`)
          return EXIT.ok
        }, partitions),
      )
    parser
      .command('plans')
      .description(
        'print the SQL that makes the tables, or brings them to this version, for a database that others change',
      )
      .option('--partitions <count>', 'of the outbox, as the services have it (default: 16)', Number)
      .action(({ partitions }: { partitions?: number }) =>
        done(printedPlans(io, placeOf(parser.opts<Where>(), io).schema, partitions)),
      )
    parser
      .command('lag')
      .description('what waits in the outbox')
      .action(() => on(async (kit) => printed(print, await outboxLag(kit))))
    commandsOfSagas(parser, on, io, print)
    commandsOfDeadLetters(parser, on, io, print)
    parser
      .command('retention')
      .description('remove what has expired')
      .action(() => on(async (kit) => printed(print, await runRetention(kit))))
  })

const SAGA_STATUSES: readonly SagaStatus[] = ['running', 'completed', 'compensating', 'compensated', 'parked']
type ListOptions = {
  readonly status?: SagaStatus
  readonly name?: string
  readonly limit: number
  readonly after?: string
}

type On = (act: OnKit) => Promise<void>
type Print = (value: unknown) => void

function commandsOfSagas(parser: Parser, on: On, io: Io, print: Print): void {
  parser
    .command('list')
    .description('the sagas, driven by a runner or by messages, in the order of their ids')
    .addOption(new Option('--status <status>', 'only these').choices(SAGA_STATUSES))
    .option('--name <name>', 'only those of this definition')
    .option('--limit <count>', 'at most', wholeNumber, 100)
    .option('--after <id>', 'the last id of the page before')
    .action(({ status, ...filter }: ListOptions) =>
      on(async (kit) =>
        printed(
          print,
          await listSagas(kit, { ...filter, ...(status === undefined ? {} : { statuses: [status] }) }),
        ),
      ),
    )
  parser
    .command('show <id>')
    .description('one saga: its state, its steps, its last error')
    .action((id: string) => on(async (kit) => found(io, id, await getSaga(kit, id), print)))
  parser
    .command('retry <id>')
    .description('let a parked saga go on where it stood; messages that ran its steps and died come again')
    .action((id: string) =>
      on(async (kit) =>
        said(io, await retrySaga(kit, id), `saga ${id} is not parked, and no message of its steps is dead`),
      ),
    )
  parser
    .command('compensate <id>')
    .description(
      'compensate a saga that is running or parked; one that messages drive also when it is done here',
    )
    .option('--reason <text>', 'kept with the saga', 'asked for by an operator')
    .action((id: string, { reason }: { reason: string }) =>
      on(async (kit) =>
        said(io, await compensateSaga(kit, id, reason), `saga ${id} is neither running nor parked`),
      ),
    )
}

function commandsOfDeadLetters(parser: Parser, on: On, io: Io, print: Print): void {
  const letters = parser.command('dead-letters').description('what was given up')
  letters
    .command('list', { isDefault: true })
    .option('--limit <count>', 'oldest first', wholeNumber, 100)
    .action(({ limit }: { limit: number }) =>
      on(async (kit) => printed(print, await listDeadLetters(kit, { limit }))),
    )
  letters
    .command('replay')
    .argument('<ids...>', 'as `list` shows them', wholeNumbers)
    .description('send them on their way again')
    .action((ids: number[]) => on(async (kit) => counted(io, ids, await replayDeadLetters(kit, ids))))
  letters
    .command('discard')
    .argument('<ids...>', 'as `list` shows them', wholeNumbers)
    .description('give them up for good; what waits behind them goes on')
    .action((ids: number[]) => on(async (kit) => counted(io, ids, await discardDeadLetters(kit, ids))))
}

/** Checked before the database is queried, which would report it as an error like any other. */
function wholeNumber(text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number > 0) return number
  throw new InvalidArgumentError('A whole number from 1 on is accepted.')
}

function wholeNumbers(text: string, before: readonly number[] | undefined): readonly number[] {
  return [...new Set([...(before ?? []), wholeNumber(text)])]
}

function printedPlans(io: Io, schema: string, partitions: number | undefined): ExitCode {
  try {
    io.stdout.write(plans(schema, partitions))
    return EXIT.ok
  } catch (error) {
    if (!(error instanceof SagaKitError)) throw error
    io.stderr.write(`${error.message}\n`)
    return EXIT.failure
  }
}

/** What is not given, as the settings of a sidecar say; where there are none, nothing is wrong with that. */
function placeOf({ database, schema }: Where, io: Io): { readonly url?: string; readonly schema: string } {
  const loaded = loadConfig(io.env, io.readFile)
  const settings = loaded.kind === 'ok' ? loaded.config : undefined
  const url = database ?? io.env.DATABASE_URL ?? settings?.sagaDatabase?.content.trim()
  return {
    schema: schema ?? settings?.sagaSchema ?? 'fencepost',
    ...(url === undefined ? {} : { url }),
  }
}

async function onKit(io: Io, where: Where, act: OnKit, partitions?: number): Promise<ExitCode> {
  const { url, schema } = placeOf(where, io)
  if (url === undefined) {
    io.stderr.write(
      'Which database? Give --database postgres://… or set DATABASE_URL, or run this with the settings of a sidecar that name one (FENCEPOST_SAGA_DATABASE_FILE).\n',
    )
    return EXIT.usage
  }
  if (!/^postgres(ql)?:\/\//.test(url)) {
    io.stderr.write(
      'The database is given as postgres://user:password@host/database, and this begins otherwise.\n',
    )
    return EXIT.usage
  }
  try {
    await using open = openSagaKit(url, schema, partitions)
    return await act(open.kit).catch((error: unknown) => Promise.reject(explained(open.kit, error)))
  } catch (error) {
    // Without the URL, which contains a password.
    const { code, message } = error as { code?: string; message?: string }
    if (error instanceof SagaKitError) {
      io.stderr.write(`${message}\n`)
      return EXIT.failure
    }
    io.stderr.write(`The database did not do it: ${message || code || 'no answer'}\n`)
    return EXIT.unavailable
  }
}

function printed(print: (value: unknown) => void, value: unknown): ExitCode {
  print(value)
  return EXIT.ok
}

function found(io: Io, id: string, value: unknown, print: (value: unknown) => void): ExitCode {
  if (value !== undefined) return printed(print, value)
  return said(io, false, `there is no saga ${id}`)
}

function said(io: Io, happened: boolean, otherwise: string): ExitCode {
  if (happened) io.stdout.write('done\n')
  else io.stderr.write(`${otherwise}\n`)
  return happened ? EXIT.ok : EXIT.failure
}

function counted(io: Io, ids: readonly number[], count: number): ExitCode {
  io.stdout.write(`${count} of ${ids.length}\n`)
  return count === ids.length ? EXIT.ok : EXIT.failure
}
