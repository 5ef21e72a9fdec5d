/**
 * `fencepost nodes status | rejoin | declare-loss | change-members | change-groups`: which nodes vote, and what an
 * operator can do about those that don't.
 *
 * Owns the words on the terminal. Other modules decide what a node is and may do; running sidecars bring nodes back by
 * themselves, so `rejoin` is for a cluster without sidecars and for watching.
 */

import { setTimeout as pause } from 'node:timers/promises'
import { type OpenCluster, type OpenClusters, openClusters } from '../app/redis-groups.ts'
import { loadConfig } from '../config/load.ts'
import { type CoreEvent, type Events, SILENT } from '../core/events.ts'
import { placeOf } from '../core/node-status.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  type Io,
  refused,
  refusedConfig,
  whoDecides,
  withArguments,
} from './command.ts'
import { described, hasMajority, isNew, lossDeclared, table } from './node-table.ts'
import { printable, printableLines } from './terminal.ts'

type DeclareOptions = ChangeOptions & { readonly wait: boolean }

export const nodes: Command = (args, io) =>
  withArguments('nodes', args, io, (parser, done) => {
    parser.description(
      'Looks after the Redis nodes that vote; run it with the settings of a sidecar, which say where they are.',
    )
    parser
      .command('status')
      .description('show which nodes vote and why the others do not; exit 69 where no majority does')
      .option('--json', 'as JSON')
      .action(async ({ json }: { readonly json?: true }) => done(await status(io, json === true)))
    parser
      .command('rejoin')
      .description(
        'bring back nodes that forgot, until all that answer vote; running sidecars do so by themselves',
      )
      .action(async () => done(await rejoin(io)))
    parser
      .command('declare-loss')
      .description(
        'Go on although more nodes forgot than a quorum survives. What only they knew is gone: requests of before may be carried out a second time. What is left on any node that answers is kept.',
      )
      .option('--confirm <cluster>', 'the id of the cluster, as `nodes status` shows it')
      .option('--by <name>', 'who decides, for the trail on the nodes and in the logs')
      .option('--group <name>', 'whose nodes, where there are several groups')
      .option('--no-wait', 'leave the rejoin to the running sidecars')
      .action(async (options: DeclareOptions) => done(await declare(io, options)))
    parser
      .command('change-members')
      .description(
        'Let the cluster consist of the nodes of this configuration from now on. Sidecars that have the old ones are refused from this moment: stop them first, start them with the new ones afterwards.',
      )
      .option('--confirm <cluster>', 'the id of the cluster, as `nodes status` shows it')
      .option('--by <name>', 'who decides, for the trail on the nodes')
      .option('--group <name>', 'whose nodes, where there are several groups')
      .action(async (options: ChangeOptions) => done(await change(io, options)))
    parser
      .command('change-groups')
      .description(
        'Let identities be placed among other groups of nodes from now on. The configuration names all groups that there are and all that there are to be. Records are not moved: what stands on another group afterwards is unknown there.',
      )
      .option('--to <names>', 'the groups that there are to be, separated by commas (default: all)')
      .option('--confirm <clusters>', 'the ids of the clusters that are changed')
      .option('--by <name>', 'who decides, for the trail on the nodes')
      .action(async (options: GroupsOptions) => done(await changeTheGroups(io, options)))
  })

type ChangeOptions = { readonly confirm?: string; readonly by?: string; readonly group?: string }
type GroupsOptions = { readonly confirm?: string; readonly by?: string; readonly to?: string }

/** On the nodes of the configuration, without a running sidecar. */
export async function onClusters<T>(
  io: Io,
  events: Events,
  watchOnly: boolean,
  act: (clusters: OpenClusters) => Promise<T>,
  ofEmbedded = 'there are no nodes outside the sidecar',
): Promise<T | ExitCode> {
  const loaded = loadConfig(io.env, io.readFile)
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  await using clusters = openClusters(loaded.config, events, watchOnly)
  if (clusters === undefined) return refused(io, `FENCEPOST_REDIS_NODES is \`embedded\`: ${ofEmbedded}.`)
  await clusters.connect()
  // Awaited here, because leaving this function closes the connections.
  return await act(clusters)
}

/** Acts on one group, which the operator must name if there are several. */
function onCluster(
  io: Io,
  group: string | undefined,
  { events, watchOnly }: { readonly events: Events; readonly watchOnly: boolean },
  act: (cluster: OpenCluster) => Promise<ExitCode>,
): Promise<ExitCode> {
  return onClusters(io, events, watchOnly, async ({ groups }) => {
    const [only] = groups
    const chosen =
      group === undefined && groups.length === 1 ? only : groups.find(({ name }) => name === group)
    if (chosen !== undefined) return act(chosen)
    const names = groups.map(({ name }) => name).join(', ')
    io.stderr.write(
      names === ''
        ? 'There is one group of nodes only: leave out --group.\n'
        : `Which group? Give --group with one of ${names}.\n`,
    )
    return EXIT.usage
  })
}

const status = (io: Io, asJson: boolean) =>
  onClusters(io, SILENT, true, async ({ groups }) => {
    io.stdout.write(asJson ? `${JSON.stringify(described(groups), undefined, 2)}\n` : table(groups))
    return groups.every(hasMajority) ? EXIT.ok : EXIT.unavailable
  })

function rejoin(io: Io): Promise<ExitCode> {
  const progress = progressOn(io)
  return onClusters(io, progress, false, ({ groups }) => untilAllVote(io, groups, progress, false))
}

/** Of a loss that is to be declared too soon. */
const MAY_HEAL =
  'It is not certain yet that too many nodes forgot: nodes that wait may vote again by themselves. Wait until `fencepost nodes status` says that nothing goes on by itself.'

function declare(io: Io, { confirm, by, wait, group }: DeclareOptions): Promise<ExitCode> {
  const progress = progressOn(io)
  return onCluster(io, group, { events: progress, watchOnly: false }, async (cluster) => {
    const who = whoDecides(by, io)
    const declared = await cluster.declareLoss(confirm, who)
    switch (declared.kind) {
      case 'no_loss':
        return refused(
          io,
          `Nothing to declare: ${declared.voting} nodes vote, ${declared.required} are needed; the others rejoin by themselves.`,
        )
      case 'too_few':
        return refused(
          io,
          `Only ${declared.answering} nodes answer, ${declared.required} must: those that are silent may remember everything. Bring them back first.`,
          EXIT.unavailable,
        )
      case 'not_confirmed':
        return refused(
          io,
          `${table([cluster])}\n${declared.isCertain ? 'Too many nodes forgot.' : MAY_HEAL} Going on means that requests which only they knew may be carried out a second time.\nTo decide so, repeat the command with --confirm ${declared.expected}`,
        )
      case 'declared':
        io.stdout.write(
          `${who} declared the loss on ${declared.nodes.join(', ')} of cluster ${declared.clusterId}. This is kept on the nodes (dedup::cluster); sidecars that wait for these nodes log it (loss_declared).\n`,
        )
        return wait ? untilAllVote(io, [cluster], progress, true) : EXIT.ok
    }
  })
}

function change(io: Io, { confirm, by, group }: ChangeOptions): Promise<ExitCode> {
  return onCluster(io, group, { events: SILENT, watchOnly: true }, async (cluster) => {
    const who = whoDecides(by, io)
    const changed = await cluster.changeMembers(confirm, who)
    const say = sayingOn(io)
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
      case 'newer':
        return say(`${changed.node}: ${changed.reason}. Nothing was changed.`, EXIT.unavailable)
      case 'several':
        return say(`These nodes know of several ${changed.what}. Nothing was changed.`, EXIT.usage)
      case 'unsafe':
        return say(`From ${changed.from.join(', ')}: ${changed.reason}. Nothing was changed.`, EXIT.usage)
      case 'silent':
        return say(
          `${changed.nodes.join(', ')} would be new and can't be looked at: a node that was one of the cluster before lacks what was recorded since, so only one that is seen to be empty may come. Start it first. Nothing was changed.`,
          EXIT.unavailable,
        )
      case 'not_empty':
        return say(
          `${changed.nodes.join(', ')} would be new and was a node of this cluster before: it lacks what was recorded since. Empty it (FLUSHALL), and repeat the command. Nothing was changed.`,
          EXIT.usage,
        )
      case 'forgot':
        return say(
          `${changed.nodes.join(', ')} forgot and has no vote, and the other nodes that stay are too few: ${changed.required} must remember, or none of the new list could be told anything. Let it rejoin first: start a sidecar with the old nodes, or run \`fencepost nodes rejoin\` with them. Nothing was changed.`,
          EXIT.unavailable,
        )
      case 'too_few':
        return say(
          `Only ${changed.answering} nodes of the cluster answer, ${changed.required} must, or sidecars with the old list could go on. Nothing was changed.`,
          EXIT.unavailable,
        )
      case 'unfinished':
        return say(
          `${changed.on.length} nodes took the change${changed.on.length === 0 ? '' : ` (${changed.on.join(', ')})`}, ${changed.required} must: repeat the command once the others answer. Start no sidecar before.`,
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

function changeTheGroups(io: Io, { confirm, by, to }: GroupsOptions): Promise<ExitCode> {
  return onClusters(io, SILENT, true, async (clusters) => {
    const who = whoDecides(by, io)
    const changed = await clusters.changeGroups(
      to?.split(',').map((name) => name.trim()),
      confirm,
      who,
    )
    const say = sayingOn(io)
    switch (changed.kind) {
      case 'changed':
        return say(
          `${who} changed the groups on ${changed.on.join(', ')}: identities are placed among ${changed.groups.join(', ')} from now on. Nodes that did not answer need the same command later. Start the sidecars with these groups when the retention is over.`,
          EXIT.ok,
        )
      case 'same':
        return say(
          changed.groups.length === 0
            ? 'Nothing to change: the nodes are in no groups, and the configuration names none.'
            : `Nothing to change: the groups are ${changed.groups.join(', ')} already.`,
          EXIT.ok,
        )
      case 'refused':
        return say(`${changed.reason}. Nothing was changed.`, EXIT.usage)
      case 'too_few':
        return say(
          `Only ${changed.answering} nodes of group ${changed.group} answer, ${changed.required} must, or sidecars with the old groups could go on.${changed.changed.length === 0 ? ' Nothing was changed.' : ` Changed so far: ${changed.changed.join(', ')}. Give the command again.`}`,
          EXIT.unavailable,
        )
      case 'not_confirmed':
        return say(
          `Identities are placed among ${changed.from.join(', ')}. Those that come to stand elsewhere are unknown there: requests that are repeated are carried out a second time. Stop all sidecars, until the longest retention is over; then repeat the command with --confirm ${changed.expected}`,
          EXIT.usage,
        )
    }
  })
}

function sayingOn(io: Io) {
  return (text: string, code: ExitCode): ExitCode => {
    const stream = code === EXIT.ok ? io.stdout : io.stderr
    stream.write(`${printableLines(text)}\n`)
    return code
  }
}

/**
 * A short silence of all nodes is a busy machine; after this long there is nothing to wait for. Nodes that are founded
 * are silent for as long as others may object: that is added.
 */
const SILENCE_MS = 5_000

/** Progress on the terminal, and a promise of the next event, so that no code here polls. */
type Progress = Events & { next(): Promise<'event'> }

function progressOn(io: Io): Progress {
  let happened = Promise.withResolvers<'event'>()
  return {
    next: () => happened.promise,
    publish: (event) => {
      const line = lineOf(event)
      if (line !== undefined) io.stdout.write(`${printable(line)}\n`)
      happened.resolve('event')
      happened = Promise.withResolvers()
    },
  }
}

async function untilAllVote(
  io: Io,
  groups: readonly OpenCluster[],
  progress: Progress,
  declared: boolean,
): Promise<ExitCode> {
  const stopped = Promise.withResolvers<'stopped'>()
  const forget = io.signals.onStop(() => stopped.resolve('stopped'))
  const isBlocked = (group: OpenCluster) => !hasMajority(group) && !declared && !lossDeclared(group)
  const silenceMs = SILENCE_MS + Math.max(...groups.map(({ foundingWindowMs }) => foundingWindowMs))
  let why: 'event' | 'stopped' | 'silent' = 'event'
  let blocked = false
  while (why !== 'stopped') {
    const waiting = groups.filter((group) => group.states().some(({ state }) => state.kind === 'quarantined'))
    if (waiting.length === 0 && groups.every(hasMajority)) break
    const forgetful = waiting.filter((group) => !isNew(group))
    blocked = forgetful.length > 0 && forgetful.every(isBlocked)
    // After a silence it is judged once more: a node that stood as a new one may have been told that it forgot, which is no event.
    if (blocked || (why === 'silent' && forgetful.length === 0)) break
    // One that forgot waits for as long as its quarantine lasts. A new one waits for nodes that do not answer, if for any.
    const over = new AbortController()
    const patience =
      forgetful.length === 0 ? [pause(silenceMs, 'silent' as const, { signal: over.signal })] : []
    why = await Promise.race([progress.next(), stopped.promise, ...patience])
    over.abort()
    await Promise.allSettled(patience)
  }
  forget()
  io.stdout.write(`\n${table(groups)}`)
  if (blocked) {
    io.stderr.write(
      'Too many nodes forgot for the rest to know everything: see `fencepost nodes declare-loss`.\n',
    )
  } else if (groups.some(isNew)) {
    io.stderr.write(
      'New nodes join only while every node of every group answers. Start those that are down above, and give the command again.\n',
    )
  }
  return groups.every(hasMajority) ? EXIT.ok : EXIT.unavailable
}

function lineOf(event: CoreEvent): string | undefined {
  switch (event.kind) {
    case 'node_state':
      return `${placeOf({ name: event.node, address: event.address })}: ${event.from} → ${event.to} (${event.reason})`
    case 'cluster_founded':
      return `a brand-new cluster of ${event.nodes.length} nodes was founded`
    case 'rejoin_progress':
      return `${event.node}: ${event.copied} records copied, ${event.sourcesDone} nodes gone through`
    case 'rejoin_step_failed':
      return `${event.node}: a step failed and is taken again (${event.reason})`
    case 'node_joined':
      return `${event.node}: joined with ${event.copied} records`
    default:
      return undefined
  }
}
