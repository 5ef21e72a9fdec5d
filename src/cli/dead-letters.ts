/**
 * `fencepost dead-letters list | show | requeue | discard | audit`: the questions that only an operator can answer.
 *
 * Owns the way to the nodes without a running sidecar. A decision is made and printed as that of `fencepost records` is. An orphan
 * is a request that may have been executed: an operator who requeues it states that it was not, one who discards it as completed
 * states that it was.
 */

import type { OpenClusters } from '../app/redis-groups.ts'
import { type AuditEntry, type AuditStream, NEWEST, pageOf, placeOf } from '../core/coordination/audit-log.ts'
import { SILENT } from '../core/events.ts'
import { DEAD_LETTERS_MAX, type DeadLetterDecided, decideDeadLetter } from '../core/operator/dead-letters.ts'
import { type Command, EXIT, type ExitCode, type Io, refused, whoDecides, withArguments } from './command.ts'
import { onClusters } from './nodes.ts'
import {
  CallRefused,
  type Deciding,
  deadLetterDecided,
  printed,
  type Reply,
  reasoned,
  reasonGiven,
} from './operator-client.ts'
import { printable } from './terminal.ts'

const LIST_MAX = 1_000

type ListOptions = { readonly json?: true; readonly limit: string; readonly before?: string }
type ActOptions = Deciding & { readonly by?: string; readonly completed?: true }

export const deadLetters: Command = (args, io) =>
  withArguments('dead-letters', args, io, (parser, done) => {
    parser.description(
      'Requests of which nobody knows whether they were carried out; run it with the settings of a sidecar, which say where the nodes are.',
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
    for (const [act, what] of [
      ['requeue', 'it was NOT carried out: the next request with its key is a first attempt again'],
      ['discard', 'drop the entry; the record stays as it is, unless --completed'],
    ] as const) {
      const command = reasoned(parser.command(`${act} <id>`).description(what))
        .option('--by <name>', 'who decides, for the audit log; default: the user and the machine')
        .option('--json', 'print the answer as the operator API gives it')
      if (act === 'discard')
        command.option(
          '--completed',
          'it WAS carried out: duplicates are told so (410) and it is never carried out again',
        )
      command.action(async (id: string, options: ActOptions) => done(await decide(io, id, act, options)))
    }
  })

const onCluster = <T>(io: Io, act: (cluster: OpenClusters) => Promise<T>) =>
  onClusters(io, SILENT, true, act, 'nothing outlives the sidecar, so there are no dead letters')

const list = (io: Io, stream: AuditStream, options: ListOptions) =>
  onCluster(io, async ({ auditLog }) => {
    const limit = Number(options.limit)
    if (!Number.isInteger(limit) || limit < 1 || limit > LIST_MAX)
      return refused(
        io,
        `--limit ${options.limit} is not accepted; accepted is a whole number from 1 to ${LIST_MAX}`,
      )
    const before = options.before === undefined ? NEWEST : placeOf(options.before)
    if (before === undefined)
      return refused(
        io,
        `--before ${options.before} is not accepted; accepted is what a list before ended with`,
      )
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

const decide = (io: Io, id: string, act: 'requeue' | 'discard', options: ActOptions) =>
  printed(options, io, async () => {
    const reason = reasonGiven(options)
    const by = whoDecides(options.by, io)
    const request = { act, id, by, reason, completed: options.completed === true }
    return onCluster(io, (cluster) =>
      deadLetterDecided(act, options, async (dryRun) =>
        replyOf(await decideDeadLetter({ ...request, dryRun }, cluster), id),
      ),
    )
  })

/**
 * As the operator API replies, so that a script reads one form, whichever command it calls.
 *
 * @throws CallRefused where nothing is known to be decided
 */
function replyOf(decided: DeadLetterDecided, id: string): Reply {
  switch (decided.kind) {
    case 'would':
      return { decided: false, dropped: false, effects: decided.effects }
    case 'done':
      return { decided: true, dropped: true }
    case 'moved_on':
      return { decided: false, dropped: true, because: decided.because }
    case 'unknown':
      throw refusal('dead-letter-unknown', unknownLetter(id), EXIT.failure)
    case 'unavailable':
      throw refusal('quorum-unavailable', decided.because, EXIT.unavailable)
  }
}

function refusal(code: string, detail: string, exit: ExitCode): CallRefused {
  return new CallRefused(`${code}: ${detail}`, exit, { code, detail })
}

async function find(io: Io, { auditLog }: OpenClusters, id: string): Promise<AuditEntry | ExitCode> {
  const read = await auditLog.read('dead-letters', DEAD_LETTERS_MAX)
  if (read.kind === 'unavailable') return unavailable(io, read)
  const entry = read.entries.find((one) => one.id === id)
  if (entry !== undefined) return entry
  return refused(io, unknownLetter(id), EXIT.failure)
}

function unknownLetter(id: string): string {
  return `No dead letter has the id ${JSON.stringify(id)}; \`fencepost dead-letters list\` shows them.`
}

function unavailable(
  io: Io,
  { answered, required, why }: { answered: number; required: number; why?: string },
): ExitCode {
  return refused(
    io,
    `${answered} nodes answered and ${required} are needed${why === undefined ? '' : `: ${why}`}.`,
    EXIT.unavailable,
  )
}

function lineOf({ id, kind, atWallMs, recordKey, fields }: AuditEntry): string {
  const rest = Object.entries(fields).map(([name, value]) => `${name}=${value}`)
  return printable([new Date(atWallMs).toISOString(), kind, id, recordKey, ...rest].join('  '))
}
