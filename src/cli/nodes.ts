/**
 * `fencepost nodes status | enroll | declare-loss | change-members`: which nodes vote, and what an operator can do about those that don't.
 *
 * Owns the words on the terminal. What a node is and may do is decided elsewhere; running sidecars enrol nodes by
 * themselves, so `enroll` is for a cluster without sidecars and for watching.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { type OpenCluster, openCluster } from '../app/cluster.ts'
import { loadConfig } from '../config/load.ts'
import type { CoreEvent, Events } from '../core/events.ts'
import { printDuration } from '../core/quantity.ts'
import { majorityOf } from '../core/units.ts'
import { type Command, EXIT, type ExitCode, type Io, withArguments } from './command.ts'
import { refuse } from './config.ts'

type DeclareOptions = { readonly confirm?: string; readonly by?: string; readonly wait: boolean }

export const nodes: Command = (args, io) =>
  withArguments('nodes', args, io, (parser, done) => {
    parser.description('Looks after the Redis nodes that vote; they come from FENCEPOST_REDIS_NODES.')
    parser
      .command('status')
      .description('show which nodes vote and why the others do not; exit 69 where no majority does')
      .option('--json', 'as JSON')
      .action(async ({ json }: { readonly json?: true }) => done(await status(io, json === true)))
    parser
      .command('enroll')
      .description(
        'bring back nodes that forgot, until all that answer vote; running sidecars do so by themselves',
      )
      .action(async () => done(await enroll(io)))
    parser
      .command('declare-loss')
      .description(
        'Go on although more nodes forgot than a quorum survives. What only they knew is gone: requests of before may be carried out a second time. What is left on any node that answers is kept.',
      )
      .option('--confirm <cluster>', 'the id of the cluster, as `nodes status` shows it')
      .option('--by <name>', 'who decides, for the trail on the nodes and in the logs')
      .option('--no-wait', 'leave the enrolment to the running sidecars')
      .action(async (options: DeclareOptions) => done(await declare(io, options)))
    parser
      .command('change-members')
      .description(
        'Let the cluster consist of the nodes of this configuration from now on. Sidecars that have the old ones are refused from this moment: stop them first, start them with the new ones afterwards.',
      )
      .option('--confirm <cluster>', 'the id of the cluster, as `nodes status` shows it')
      .option('--by <name>', 'who decides, for the trail on the nodes')
      .action(async (options: ChangeOptions) => done(await change(io, options)))
  })

type ChangeOptions = { readonly confirm?: string; readonly by?: string }

type OnCluster = (cluster: OpenCluster) => Promise<ExitCode>

async function onCluster(io: Io, events: Events, watchOnly: boolean, act: OnCluster): Promise<ExitCode> {
  const loaded = loadConfig(io.env, io.readFile)
  if (loaded.kind === 'invalid') return refuse(loaded, io)
  await using cluster = openCluster(loaded.config, events, watchOnly)
  if (cluster === undefined) {
    io.stderr.write('FENCEPOST_REDIS_NODES is `embedded`: there are no nodes outside the sidecar.\n')
    return EXIT.usage
  }
  await cluster.connect()
  // Awaited here: the connections are closed when this function is left.
  return await act(cluster)
}

const SILENT: Events = { publish: () => {} }

const status = (io: Io, asJson: boolean) =>
  onCluster(io, SILENT, true, async (cluster) => {
    io.stdout.write(asJson ? `${JSON.stringify(described(cluster), undefined, 2)}\n` : table(cluster))
    return hasMajority(cluster) ? EXIT.ok : EXIT.unavailable
  })

function enroll(io: Io): Promise<ExitCode> {
  const progress = progressOn(io)
  return onCluster(io, progress, false, (cluster) => untilAllVote(io, cluster, progress, false))
}

function declare(io: Io, { confirm, by, wait }: DeclareOptions): Promise<ExitCode> {
  const progress = progressOn(io)
  return onCluster(io, progress, false, async (cluster) => {
    const who = by ?? `${io.env.USER ?? 'somebody'}@${io.hostname}`
    const declared = await cluster.declareLoss(confirm, who)
    switch (declared.kind) {
      case 'no_loss':
        io.stderr.write(
          `Nothing to declare: ${declared.voting} nodes vote, ${declared.required} are needed; the others are enrolled by themselves.\n`,
        )
        return EXIT.usage
      case 'too_few':
        io.stderr.write(
          `Only ${declared.answering} nodes answer, ${declared.required} must: those that are silent may remember everything. Bring them back first.\n`,
        )
        return EXIT.unavailable
      case 'not_confirmed':
        io.stderr.write(
          `${table(cluster)}\nToo many nodes forgot. Going on means that requests which only they knew may be carried out a second time.\nTo decide so, repeat the command with --confirm ${declared.expected}\n`,
        )
        return EXIT.usage
      case 'declared':
        io.stdout.write(
          `${who} declared the loss on ${declared.nodes.join(', ')} of cluster ${declared.clusterId}. This is kept on the nodes (dedup::cluster) and said by every sidecar.\n`,
        )
        return wait ? untilAllVote(io, cluster, progress, true) : EXIT.ok
    }
  })
}

function change(io: Io, { confirm, by }: ChangeOptions): Promise<ExitCode> {
  return onCluster(io, SILENT, true, async (cluster) => {
    const who = by ?? `${io.env.USER ?? 'somebody'}@${io.hostname}`
    const changed = await cluster.changeMembers(confirm, who)
    const say = (text: string, code: ExitCode): ExitCode => {
      const stream = code === EXIT.ok ? io.stdout : io.stderr
      stream.write(`${text}\n`)
      return code
    }
    switch (changed.kind) {
      case 'changed':
        return say(
          `${who} changed the nodes of the cluster on ${changed.on.join(', ')}: from ${changed.from.join(', ')} to ${changed.to.join(', ')}. Nodes that did not answer need the same command later. Start the sidecars with the new list; new nodes vote after the quarantine and the copying.`,
          EXIT.ok,
        )
      case 'same':
        return say(`Nothing to change: the nodes are ${changed.members.join(', ')} already.`, EXIT.ok)
      case 'no_cluster':
        return say(
          'No node that answers knows the nodes of its cluster: the first sidecar writes its own.',
          EXIT.usage,
        )
      case 'several':
        return say(`These nodes know of several ${changed.what}. Nothing was changed.`, EXIT.usage)
      case 'unsafe':
        return say(`From ${changed.from.join(', ')}: ${changed.reason}. Nothing was changed.`, EXIT.usage)
      case 'too_few':
        return say(
          `Only ${changed.answering} nodes of the cluster answer, ${changed.required} must, or sidecars with the old list could go on. Nothing was changed.`,
          EXIT.unavailable,
        )
      case 'not_confirmed':
        return say(
          `The nodes of the cluster are ${changed.from.join(', ')}. Stop all sidecars; then, to let it consist of the nodes of this configuration, repeat the command with --confirm ${changed.expected}`,
          EXIT.usage,
        )
    }
  })
}

/** Nodes that all say nothing for a moment are a busy machine; so long, and there is nothing to wait for. */
const SILENCE_MS = 5_000

/** Progress on the terminal, and a promise of the next event: nothing here asks again and again. */
type Progress = Events & { next(): Promise<void> }

function progressOn(io: Io): Progress {
  let happened = Promise.withResolvers<void>()
  return {
    next: () => happened.promise,
    publish: (event) => {
      const line = lineOf(event)
      if (line !== undefined) io.stdout.write(`${line}\n`)
      happened.resolve()
      happened = Promise.withResolvers()
    },
  }
}

async function untilAllVote(
  io: Io,
  cluster: OpenCluster,
  progress: Progress,
  declared: boolean,
): Promise<ExitCode> {
  const stopped = Promise.withResolvers<'stopped'>()
  const forget = io.signals.onStop(() => stopped.resolve('stopped'))
  let blocked = false
  let silentForGood = false
  for (;;) {
    const states = cluster.states().map(({ state }) => state.kind)
    const waiting = states.includes('quarantined')
    if (!waiting && (hasMajority(cluster) || silentForGood)) break
    blocked = waiting && !hasMajority(cluster) && !declared && !lossDeclared(cluster)
    if (blocked) break
    const over = new AbortController()
    const patience = waiting ? [] : [pause(SILENCE_MS, 'silent' as const, { signal: over.signal })]
    const why = await Promise.race([progress.next(), stopped.promise, ...patience])
    over.abort()
    await Promise.allSettled(patience)
    if (why === 'stopped') break
    silentForGood = why === 'silent'
  }
  forget()
  io.stdout.write(`\n${table(cluster)}`)
  if (blocked) {
    io.stderr.write(
      'Too many nodes forgot for the rest to know everything: see `fencepost nodes declare-loss`.\n',
    )
  }
  return hasMajority(cluster) ? EXIT.ok : EXIT.unavailable
}

function lineOf(event: CoreEvent): string | undefined {
  switch (event.kind) {
    case 'node_state':
      return `${event.node}: ${event.from} → ${event.to} (${event.reason})`
    case 'cluster_founded':
      return `a brand-new cluster of ${event.nodes.length} nodes was founded`
    case 'enrolment_progress':
      return `${event.node}: ${event.copied} records copied, ${event.sourcesDone} nodes gone through`
    case 'enrolment_stumbled':
      return `${event.node}: a step failed and is taken again (${event.reason})`
    case 'node_enrolled':
      return `${event.node}: enrolled with ${event.copied} records`
    default:
      return undefined
  }
}

function hasMajority(cluster: OpenCluster): boolean {
  const states = cluster.states()
  return states.filter(({ state }) => state.kind === 'voting').length >= majorityOf(states.length)
}

function lossDeclared(cluster: OpenCluster): boolean {
  return cluster
    .states()
    .some(({ state }) => state.kind === 'quarantined' && state.facts.quarantine?.declaredBy !== undefined)
}

function described(cluster: OpenCluster) {
  const { id, quarantineMs } = cluster.cluster()
  return {
    cluster: id === '' ? null : id,
    quarantineMs,
    required: majorityOf(cluster.addresses.length),
    nodes: cluster.states().map(({ name, state }, index) => ({
      name,
      address: cluster.addresses[index],
      state: state.kind,
      ...('reason' in state ? { reason: state.reason } : {}),
      ...('facts' in state ? { runId: state.facts.runId, version: state.facts.version } : {}),
      ...(state.kind === 'quarantined' && state.facts.quarantine !== undefined
        ? {
            quarantinedForMs: state.facts.nodeMs - state.facts.quarantine.sinceNodeMs,
            recordsCopied: state.facts.quarantine.progress.copied,
            sourcesDone: state.facts.quarantine.progress.done.length,
          }
        : {}),
    })),
  }
}

function table(cluster: OpenCluster): string {
  const { cluster: id, quarantineMs, required, nodes: rows } = described(cluster)
  const width = Math.max(...rows.map(({ address }) => address?.length ?? 0))
  const lines = rows.map((row) => {
    const quarantine =
      'quarantinedForMs' in row
        ? `, for ${printDuration(Math.max(0, Math.round(row.quarantinedForMs / 1_000) * 1_000))}, ${row.recordsCopied} records copied`
        : ''
    const detail = 'reason' in row ? `${row.reason}${quarantine}` : `run ${row.runId}, Redis ${row.version}`
    return `${row.name}  ${(row.address ?? '').padEnd(width)}  ${row.state.padEnd(11)}  ${detail}`
  })
  const voting = rows.filter(({ state }) => state === 'voting').length
  const summary = `cluster ${id ?? '(no node knows its name)'}: ${voting} of ${rows.length} nodes vote, ${required} are needed; quarantine ${printDuration(quarantineMs)}`
  return `${[...lines, '', summary].join('\n')}\n`
}
