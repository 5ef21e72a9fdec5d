/**
 * `fencepost dead-letters list | show | requeue | discard | audit`: the questions that only an operator can answer.
 *
 * Owns the words on the terminal. An orphan is a request that may have been executed: an operator who requeues it
 * states that it was not, one who discards it as completed states that it was.
 */

import { type OpenClusters, openClusters } from '../app/redis-groups.ts'
import { loadConfig } from '../config/load.ts'
import type { AuditEntry, AuditStream } from '../core/coordination/audit-log.ts'
import { NEWEST, pageOf, placeOf } from '../core/coordination/audit-place.ts'
import {
  concludeOrphan,
  type DecisionTerms,
  forgetOrphan,
  type OrphanSettled,
} from '../core/coordination/settle-orphan.ts'
import { SILENT } from '../core/events.ts'
import { LETTERS_MAX } from '../core/operator/dead-letters.ts'
import { type Command, EXIT, type ExitCode, type Io, withArguments } from './command.ts'
import { refuse } from './config.ts'

const LIST_MAX = 1_000

type ListOptions = { readonly json?: true; readonly limit: string; readonly before?: string }
type ActOptions = { readonly by?: string; readonly completed?: true }

export const deadLetters: Command = (args, io) =>
  withArguments('dead-letters', args, io, (parser, done) => {
    parser.description(
      'Requests of which nobody knows whether they were carried out; the nodes come from FENCEPOST_REDIS_NODES.',
    )
    for (const [name, stream, what] of [
      ['list', 'dead-letters', 'show what waits for a decision, oldest first'],
      [
        'audit',
        'audit',
        'show what was written down without a question: fenced completions, degraded decisions, acts',
      ],
    ] as const) {
      parser
        .command(name)
        .description(what)
        .option('--json', 'one JSON object a line')
        .option('--limit <n>', `newest entries to show, at most ${LIST_MAX}`, '100')
        .option('--before <cursor>', 'older entries, from where a list before ended')
        .action(async (options: ListOptions) => done(await list(io, stream, options)))
    }
    parser
      .command('show <id>')
      .description('show one entry, and what stands on its record now')
      .action(async (id: string) => done(await show(io, id)))
    parser
      .command('requeue <id>')
      .description('it was NOT carried out: the next request with its key is a first attempt again')
      .option('--by <name>', 'who decides, for the audit trail')
      .action(async (id: string, options: ActOptions) => done(await decide(io, id, 'requeue', options)))
    parser
      .command('discard <id>')
      .description('drop the entry; the record stays as it is, unless --completed')
      .option(
        '--completed',
        'it WAS carried out: duplicates are told so (410) and it is never carried out again',
      )
      .option('--by <name>', 'who decides, for the audit trail')
      .action(async (id: string, options: ActOptions) => done(await decide(io, id, 'discard', options)))
  })

type OnCluster = (cluster: OpenClusters, terms: DecisionTerms) => Promise<ExitCode>

async function onCluster(io: Io, act: OnCluster): Promise<ExitCode> {
  const loaded = loadConfig(io.env, io.readFile)
  if (loaded.kind === 'invalid') return refuse(loaded, io)
  await using cluster = openClusters(loaded.config, SILENT, true)
  if (cluster === undefined) {
    io.stderr.write(
      'FENCEPOST_REDIS_NODES is `embedded`: nothing outlives the sidecar, so there are no dead letters.\n',
    )
    return EXIT.usage
  }
  await cluster.connect()
  return await act(cluster, loaded.config)
}

const list = (io: Io, stream: AuditStream, options: ListOptions) =>
  onCluster(io, async ({ auditLog }) => {
    const limit = Number(options.limit)
    if (!Number.isInteger(limit) || limit < 1 || limit > LIST_MAX) {
      io.stderr.write(
        `--limit ${options.limit} is not accepted; accepted is a whole number from 1 to ${LIST_MAX}\n`,
      )
      return EXIT.usage
    }
    const before = options.before === undefined ? NEWEST : placeOf(options.before)
    if (before === undefined) {
      io.stderr.write(
        `--before ${options.before} is not accepted; accepted is what a list before ended with\n`,
      )
      return EXIT.usage
    }
    const read = await auditLog.read(stream, limit + 1, before)
    if (read.kind === 'unavailable') return unavailable(io, read)
    const { entries, cursor } = pageOf(read.entries, limit)
    for (const entry of entries) io.stdout.write(`${options.json ? JSON.stringify(entry) : lineOf(entry)}\n`)
    if (entries.length === 0 && !options.json) io.stdout.write('nothing\n')
    // Beside the list, so that a program that reads it gets entries alone.
    if (cursor !== undefined) io.stderr.write(`There are older ones: --before ${cursor}\n`)
    return EXIT.ok
  })

const show = (io: Io, id: string) =>
  onCluster(io, async (cluster) => {
    const entry = await find(io, cluster, id)
    if (typeof entry === 'number') return entry
    const record = await cluster.leases.read(entry.recordKey)
    const now = 'outcome' in record ? { ...record, outcome: record.outcome.kind } : record
    io.stdout.write(`${JSON.stringify({ entry, record: now }, undefined, 2)}\n`)
    return EXIT.ok
  })

const decide = (io: Io, id: string, act: 'requeue' | 'discard', { by, completed }: ActOptions) =>
  onCluster(io, async (cluster, terms) => {
    const entry = await find(io, cluster, id)
    if (typeof entry === 'number') return entry
    let movedOn: string | undefined
    const who = by ?? `${io.env.USER ?? 'somebody'}@${io.hostname}`
    if (act === 'requeue' || completed === true) {
      const settled = await settle(cluster, entry, act, terms)
      if (settled.kind === 'unavailable') {
        io.stderr.write('Too few nodes answered; nothing was decided. Try again.\n')
        return EXIT.unavailable
      }
      if (settled.kind === 'not_an_orphan') movedOn = settled.because
    }
    const done = movedOn === undefined ? act : 'drop'
    const how = movedOn === undefined ? (completed === true ? { as: 'completed' } : {}) : { because: movedOn }
    const fields = { act: done, entry: id, by: who, ...how }
    const written = await cluster.auditLog.append('audit', {
      id: `operator:${done}:${id}`,
      kind: 'operator',
      atWallMs: Date.now(),
      recordKey: entry.recordKey,
      fields,
    })
    const removed = await cluster.auditLog.remove('dead-letters', id)
    if (!written || !removed) {
      io.stderr.write('It was decided, but too few nodes took the note of it. Try again.\n')
      return EXIT.unavailable
    }
    io.stdout.write(
      movedOn === undefined
        ? `${act === 'requeue' ? 'requeued' : 'discarded'} ${id}\n`
        : `Its record has moved on by itself (${movedOn}): nothing was changed; dropped ${id}\n`,
    )
    return EXIT.ok
  })

function settle(
  cluster: OpenClusters,
  entry: AuditEntry,
  act: 'requeue' | 'discard',
  terms: DecisionTerms,
): Promise<OrphanSettled> {
  const { fingerprint = '', attempt, token } = entry.fields
  const orphan = {
    recordKey: entry.recordKey,
    fingerprint,
    attempt: Number(attempt ?? 1),
    token: Number(token),
  }
  if (act === 'requeue') return forgetOrphan(orphan, terms, cluster.leases)
  const outcome = { kind: 'tombstone', status: 200, completedAtWallMs: entry.atWallMs } as const
  return concludeOrphan(orphan, outcome, terms, cluster.leases)
}

async function find(io: Io, { auditLog }: OpenClusters, id: string): Promise<AuditEntry | ExitCode> {
  const read = await auditLog.read('dead-letters', LETTERS_MAX)
  if (read.kind === 'unavailable') return unavailable(io, read)
  const entry = read.entries.find((one) => one.id === id)
  if (entry !== undefined) return entry
  io.stderr.write(
    `No dead letter has the id ${JSON.stringify(id)}; \`fencepost dead-letters list\` shows them.\n`,
  )
  return EXIT.failure
}

function unavailable(io: Io, { answered, required }: { answered: number; required: number }): ExitCode {
  io.stderr.write(`${answered} nodes answered and ${required} are needed.\n`)
  return EXIT.unavailable
}

function lineOf({ id, kind, atWallMs, fields }: AuditEntry): string {
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${value}`)
  return [new Date(atWallMs).toISOString(), kind, id, ...rest].join('  ')
}
