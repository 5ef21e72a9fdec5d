/**
 * `fencepost-saga COMMAND`: what a person does with the tables of the kit, with sagas and with dead letters, from a terminal.
 *
 * Owns the words on the terminal and the exit codes. It needs the database alone.
 */
import { hostname } from 'node:os'
import pg from 'pg'
import { processClock } from '../ambient.ts'
import { listDeadLetters } from '../dead-letters.ts'
import { SagaKitError } from '../errors.ts'
import { eventLog, type Log } from '../event-log.ts'
import { runRetention } from '../housekeeping.ts'
import { createSagaKit, type SagaKit } from '../kit.ts'
import { migrate, plans } from '../migrate.ts'
import { type Decision, decide, listDecisions, UNMOVED } from '../operations/decisions.ts'
import { outboxLag } from '../outbox.ts'
import { getSaga, listSagas, type SagaStatus, sagaStatuses } from '../saga-instances.ts'
import { explained } from '../setup-errors.ts'
import {
  type Given,
  helpOf,
  type Io,
  type Options,
  type Row,
  readArguments,
  UsageError,
} from './arguments.ts'
import { isSafeDatabase, serve } from './serve.ts'

/** sysexits(3), as the sidecar's command has them. */
const exit = { ok: 0, failure: 1, usage: 64, unavailable: 69 } as const

const common: Options = {
  database: {
    value: '<url>',
    says: 'postgres://user:password@host/database; default: the environment variable DATABASE_URL',
  },
  'database-file': { value: '<path>', says: 'the same from a file' },
  schema: { value: '<name>', says: 'of the tables; default: fencepost' },
  'require-tls': { says: 'refuse a database that is spoken to in clear text beyond this machine' },
  help: { says: 'show this' },
}

const limited: Options = { limit: { value: '<count>', says: 'at most; default: 100' } }
const decided: Options = {
  by: { value: '<name>', says: 'who decides; default: the user and the machine' },
  reason: { value: '<text>', says: 'why; both stand among the decisions' },
}
const partitioned: Options = {
  partitions: {
    value: '<count>',
    says: 'of the outbox, as the services have it; default: as it is, 16 where there is none',
  },
}

type Act = (kit: SagaKit, call: { given: Given; rest: readonly string[]; io: Io }) => Promise<number>

const listed = {
  options: limited,
  act: async (kit, { given, io }) => printed(io, await listDeadLetters(kit, { limit: limitOf(given) })),
} as const satisfies { options: Options; act: Act }

const commands: Readonly<Record<string, Row & { readonly act?: Act }>> = {
  migrate: {
    says: 'bring the tables to this version; forward only',
    options: { 'dry-run': { says: 'say what would be applied' }, ...partitioned },
    act: async (kit, { given, io }) => {
      const dryRun = given['dry-run'] === true
      const report = await migrate(kit, { dryRun, keepPartitions: given.partitions === undefined })
      const list = report.applied.length === 0 ? 'nothing' : report.applied.join(', ')
      io.stdout.write(`${dryRun ? 'would apply' : 'applied'}: ${list}; version ${report.version}\n`)
      return exit.ok
    },
  },
  plans: {
    says: 'print the SQL that makes the tables, or brings them to this version, for a database that others change',
    options: partitioned,
  },
  lag: { says: 'what waits in the outbox', act: async (kit, { io }) => printed(io, await outboxLag(kit)) },
  list: {
    says: 'the sagas, driven by a runner or by messages, in the order of their ids',
    options: {
      status: { value: '<status>', says: `only these: ${sagaStatuses.join(', ')}` },
      name: { value: '<name>', says: 'only those of this definition' },
      after: { value: '<id>', says: 'the last id of the page before' },
      ...limited,
    },
    act: async (kit, { given, io }) => {
      const { status, name, after } = given as { status?: SagaStatus; name?: string; after?: string }
      if (status !== undefined && !sagaStatuses.includes(status))
        throw new UsageError(
          `--status ${status} is not accepted; accepted is one of ${sagaStatuses.join(', ')}`,
        )
      const statuses = status && [status]
      return printed(io, await listSagas(kit, { limit: limitOf(given), statuses, name, after }))
    },
  },
  show: {
    takes: '<id>',
    says: 'one saga: its state, its steps, its last error',
    act: async (kit, { rest: [id = ''], io }) => {
      const saga = await getSaga(kit, id)
      return saga === undefined ? said(io, false, `there is no saga ${id}`) : printed(io, saga)
    },
  },
  retry: {
    takes: '<id>',
    says: 'let a parked saga go on where it stood; messages that ran its steps and died come again',
    options: decided,
    act: (kit, call) => ofSaga(kit, call, 'retry'),
  },
  compensate: {
    takes: '<id>',
    says: 'compensate a saga that is running or parked; one that messages drive also when it is done here',
    options: decided,
    act: (kit, call) => ofSaga(kit, call, 'compensate'),
  },
  'dead-letters': { ...listed, says: 'what was given up, oldest first' },
  'dead-letters list': { ...listed, says: 'the same' },
  'dead-letters replay': {
    takes: '<ids...>',
    says: 'send them on their way again; ids are as the list shows them',
    options: decided,
    act: (kit, call) => ofMessages(kit, call, 'replay'),
  },
  'dead-letters discard': {
    takes: '<ids...>',
    says: 'give them up for good; what waits behind them goes on',
    options: decided,
    act: (kit, call) => ofMessages(kit, call, 'discard'),
  },
  decisions: {
    says: 'who decided what, and why, newest first',
    options: limited,
    act: async (kit, { given, io }) => printed(io, await listDecisions(kit, { limit: limitOf(given) })),
  },
  retention: {
    says: 'remove what has expired',
    act: async (kit, { io }) => printed(io, await runRetention(kit)),
  },
  serve: {
    says: 'serve the page and the calls about sagas, and the gauges for Prometheus, until it is stopped',
    options: {
      operators: {
        value: '<path>',
        says: 'file with who may call, one a line: name, role (view or operate), token',
      },
      listen: { value: '<host:port>', says: 'of page and calls; default: 127.0.0.1:8090' },
      'tls-cert': {
        value: '<path>',
        says: 'PEM file with the certificate and its chain, for any other host',
      },
      'tls-key': { value: '<path>', says: 'PEM file with its private key' },
      'metrics-listen': {
        value: '<host:port>',
        says: '/metrics and /healthz, without a token; default: 127.0.0.1:9091',
      },
      'runbook-url': { value: '<url>', says: 'where docs/operations/runbooks.md is published' },
    },
    act: (kit, { given, io }) => serve(kit, given, io),
  },
}

/** Returns the exit code. */
export async function fencepostSaga(args: readonly string[], process: Io): Promise<number> {
  const io = { ...process, readFile: (path: string) => contentOf(path, process) }
  try {
    const { command, given, rest } = readArguments(args, commands, common)
    if (command === 'help') {
      io.stdout.write(helpOf('fencepost-saga', commands, common, rest.join(' ')))
      return args.length === 0 ? exit.usage : exit.ok
    }
    const { act } = commands[command]!
    const partitions = given.partitions === undefined ? undefined : Number(given.partitions)
    if (act === undefined) {
      io.stdout.write(plans(schemaIn(given), partitions))
      return exit.ok
    }
    // A command says by itself what failed; what serves goes on, and its failures are told as they come.
    const events = command === 'serve' ? eventLog(processClock, logOn(io)) : () => {}
    const connectionString = databaseOf(given, io)
    const pool = new pg.Pool({ connectionString, max: 4, connectionTimeoutMillis: 5_000 })
    try {
      const schema = schemaIn(given)
      const kit = createSagaKit({ pool, schema, events, ...(partitions === undefined ? {} : { partitions }) })
      return await onKit(kit, io, () => act(kit, { given, rest, io }))
    } finally {
      await pool.end()
    }
  } catch (error) {
    if (error instanceof UsageError) {
      io.stderr.write(`${error.message}\n(add --help for what is accepted)\n`)
      return exit.usage
    }
    if (!(error instanceof SagaKitError)) throw error
    io.stderr.write(`${error.message}\n`)
    return exit.failure
  }
}

function contentOf(path: string, { readFile }: Io): string {
  try {
    return readFile(path)
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code}`)
  }
}

function schemaIn({ schema }: Given): string {
  return typeof schema === 'string' ? schema : 'fencepost'
}

/** @throws UsageError without what is given, which contains a password */
function databaseOf(given: Given, io: Io): string {
  const file = given['database-file']
  const url = given.database ?? (typeof file === 'string' ? io.readFile(file).trim() : io.env.DATABASE_URL)
  if (typeof url !== 'string')
    throw new UsageError(
      'Which database? Give --database postgres://… or --database-file, or set DATABASE_URL.',
    )
  if (!/^postgres(ql)?:\/\/\S+$/.test(url))
    throw new UsageError(
      'The database is given as postgres://user:password@host/database, and this begins otherwise.',
    )
  if (given['require-tls'] === true && !isSafeDatabase(url))
    throw new UsageError(
      'The database would be spoken to in clear text, which --require-tls refuses: write sslmode=verify-full into its URL (postgres://user:password@host/database?sslmode=verify-full).',
    )
  return url
}

function logOn({ stderr }: Io): Log {
  const line = (text: string) => void stderr.write(`${text}\n`)
  return { error: line, warn: line }
}

async function onKit(kit: SagaKit, io: Io, act: () => Promise<number>): Promise<number> {
  try {
    return await act()
  } catch (cause) {
    const error = explained(kit, cause)
    if (error instanceof SagaKitError || error instanceof UsageError) throw error
    // Without the URL, which contains a password.
    const { code, message } = error as { code?: string; message?: string }
    io.stderr.write(`The database did not do it: ${message || code || 'no answer'}\n`)
    return exit.unavailable
  }
}

type Call = Parameters<Act>[1]

function deciding(kit: SagaKit, { given, io }: Call, decision: Decision): Promise<number> {
  const by = typeof given.by === 'string' ? given.by : `${io.env.USER ?? 'somebody'}@${hostname()}`
  const reason = typeof given.reason === 'string' ? given.reason : 'asked for by an operator'
  return decide(kit, decision, { by, reason })
}

async function ofSaga(kit: SagaKit, call: Call, act: keyof typeof UNMOVED) {
  const [sagaId = ''] = call.rest
  return said(call.io, (await deciding(kit, call, { act, sagaId })) > 0, `saga ${sagaId} ${UNMOVED[act]}`)
}

async function ofMessages(kit: SagaKit, call: Call, act: 'replay' | 'discard'): Promise<number> {
  // Checked before the database is queried, which would report it as an error like any other.
  const ids = [...new Set(call.rest.map(wholeNumber))]
  const count = await deciding(kit, call, { act, ids })
  call.io.stdout.write(`${count} of ${ids.length}\n`)
  return count === ids.length ? exit.ok : exit.failure
}

function limitOf({ limit }: Given): number {
  return limit === undefined ? 100 : wholeNumber(String(limit))
}

function wholeNumber(text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number) && number > 0) return number
  throw new UsageError(`${text} is not accepted; a whole number from 1 on is.`)
}

function printed(io: Io, value: unknown): number {
  io.stdout.write(`${JSON.stringify(value, undefined, 2)}\n`)
  return exit.ok
}

function said(io: Io, happened: boolean, otherwise: string): number {
  if (happened) io.stdout.write('done\n')
  else io.stderr.write(`${otherwise}\n`)
  return happened ? exit.ok : exit.failure
}
