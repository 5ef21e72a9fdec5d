/**
 * One run of a sidecar: the production core on simulated clocks and links, with every claim noted.
 *
 * Owns the wiring, which is that of production: `createLeases` over `createRedlockQuorum`, its deadline, the breaker of the quorum,
 * the memory of outcomes, and the local record for the time without a quorum. The layers added here only observe.
 */

import { type Background, createBackground } from '../../src/core/background.ts'
import { withClaimDeadline } from '../../src/core/claims/claim-deadline.ts'
import { createLeases } from '../../src/core/claims/leases.ts'
import { shareLeases } from '../../src/core/claims/shared-leases.ts'
import { createWaiters, type Waiters } from '../../src/core/claims/waiters.ts'
import { createWriteBack, type WriteBack } from '../../src/core/claims/write-back.ts'
import type { Clock } from '../../src/core/clock.ts'
import { type CoreEvent, type Events, SILENT } from '../../src/core/events.ts'
import { believedNodes } from '../../src/core/nodes/believed-nodes.ts'
import type { ForwardJump } from '../../src/core/nodes/clock-samples.ts'
import { placementOf, routeLeases } from '../../src/core/nodes/groups.ts'
import { type WatchedNodes, watchNodeClocks } from '../../src/core/nodes/node-clocks.ts'
import { quorumBreaker } from '../../src/core/nodes/quorum-breaker.ts'
import type { NodeReply } from '../../src/core/operator/record-view.ts'
import type { Lease, Leases, NodeAnswer, RecordNode, RenewResult } from '../../src/core/ports.ts'
import { answerMaxAgeMs } from '../../src/core/quorum/tally.ts'
import type { RecordCommand } from '../../src/core/record/record.ts'
import { decodeOutcome, type StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import { majorityOf } from '../../src/core/units.ts'
import { createEmbeddedNodes } from '../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../src/redlock/rounds.ts'
import { encodeOutcome } from '../support/encoded-outcome.ts'
import { streamOf } from './dice.ts'
import { SIMULATED_ANSWER_MAX_AGE_MS } from './drains.ts'
import { type Grant, type History, renewUntil, type Shown } from './history.ts'
import { Link } from './link.ts'
import { keepMembership, type Membership } from './membership.ts'
import type { SimulatedNode } from './node.ts'
import { MAX_TOKEN_AHEAD_MS, type Plan } from './plan.ts'
import type { SimulatedProcess } from './process.ts'
import { CLOCK_STEP_MS, CLUSTER, type NodePorts } from './rejoining-node.ts'
import type { Scheduler } from './scheduler.ts'
import type { Votes } from './votes.ts'

export type Sidecar = {
  readonly process: SimulatedProcess
  readonly links: readonly Link[]
  readonly leases: Leases
  /** The same without the memory of outcomes. */
  readonly guarded: Leases
  /** What production gives an operator, besides `guarded`: commands that nothing notes, and a look at each node. */
  readonly operated: {
    readonly unnoted: Leases
    readonly inspect: (key: string) => Promise<readonly NodeReply[]>
    readonly forgetHere: (key: string) => void
  }
  readonly whenEnded: (key: string) => Promise<void> | undefined
  /** Local to this process, for requests that go on without a quorum. */
  readonly localLeases: Leases
  readonly writeBack: WriteBack
  readonly waiters: Waiters
  readonly background: Background
  readonly events: Events
  /** The cluster that it keeps to. */
  readonly knownCluster: Membership['knownCluster']
  /** A node answers that its incarnation is outdated. */
  readonly forgot: (node: number) => void
}

export type SidecarPorts = Pick<NodePorts, 'scheduler' | 'history' | 'healed' | 'onFounded' | 'onJoined'> & {
  readonly plan: Plan
  readonly nodes: readonly SimulatedNode[]
  readonly votes: Votes
  /** Nothing happens to the nodes any more. */
  readonly settled: () => boolean
}

export function startSidecar(process: SimulatedProcess, number: number, ports: SidecarPorts): Sidecar {
  const { plan, nodes, scheduler, history, votes } = ports
  const { clock } = process
  const events: Events = { publish: (event) => observe(event, process, history, scheduler) }
  const showedOutcome = new Set<string>()
  let counted: string | undefined
  /** F2: a process that works with one cluster counts no vote of another. */
  const onCounted = (cluster: string | undefined) => {
    counted ??= cluster
    if (cluster !== counted)
      history.violated(
        'F2',
        scheduler.nowMs,
        `${process.name} worked with cluster ${counted}, and counts an answer of ${cluster}`,
      )
  }
  const onHeard = (node: number, command: RecordCommand, answer: NodeAnswer) => {
    if (answer.kind === 'quarantined') history.saw('quarantined_answer')
    if (answer.kind === 'unreachable' && answer.full) history.saw('full_node_refused')
    if (answer.kind === 'completed' && nodes[node]?.full) history.saw('full_node_answered')
    if (command.kind === 'claim' && answer.kind === 'unreachable') history.unheardClaims.add(command.key)
    if (answer.kind === 'stale') history.saw('stale_token_proposed')
    if (answer.kind === 'skewed') history.saw('skewed_token_proposed')
    history.step(
      scheduler.nowMs,
      node * 16 + command.kind.length,
      () => `${process.name} hears node-${node} on ${command.kind}: ${answer.kind}`,
    )
  }
  const links = nodes.map(
    (node) =>
      new Link({
        scheduler,
        process,
        node,
        network: plan.network,
        dice: streamOf(plan.seed, 'link', number * 16 + node.index),
        onHeard,
        onTwice: () => history.saw('message_executed_twice'),
        answerMaxAgeMs: plan.drains ? SIMULATED_ANSWER_MAX_AGE_MS : answerMaxAgeMs(CLUSTER.quarantineMs),
        onOld: () => history.saw('answer_too_old'),
        onForgot: (index) => forgot(index),
        onCounted,
      }),
  )
  const groupCount = plan.groups ?? 1
  const watched = watchNodes(plan, links, clock, (index, jump) =>
    memberships[Math.floor(index / plan.nodeCount)]?.jumped(index % plan.nodeCount, jump),
  )
  const memberships = Array.from({ length: groupCount }, (_, group): Membership => {
    const from = group * plan.nodeCount
    const own = <T>(of: readonly T[]) => of.slice(from, from + plan.nodeCount)
    return keepMembership({
      ...ports,
      process,
      network: plan.network,
      dice: streamOf(plan.seed, 'membership', number + 1_000 * group),
      nodes: own(nodes),
      links: own(links),
      drains: plan.drains !== undefined,
      onPoll: (index, sample, sentWallMs) => watched.saw(from + index, sample, sentWallMs),
    })
  })
  const forgot = (index: number) =>
    memberships[Math.floor(index / plan.nodeCount)]?.forgot(index % plan.nodeCount)
  const rejected = (cause: unknown) => history.violated('rejected', scheduler.nowMs, String(cause))
  const background = createBackground(16, rejected)
  const lateClaims = createBackground(Number.POSITIVE_INFINITY, rejected)
  const outside = { clock, events }
  const random = streamOf(plan.seed, 'around the core', number)
  const required = majorityOf(plan.nodeCount)
  const groups = Array.from({ length: groupCount }, (_, group) => {
    const { nodes: believed, nowMs: nodesMs } = believedNodes(
      watched.nodes.slice(group * plan.nodeCount, (group + 1) * plan.nodeCount),
      outside,
    )
    const quorum = createRedlockQuorum({
      nodes: believed.map((node) => notingOutcomes(node, showedOutcome)),
      clock,
      events,
    })
    const drawn = streamOf(plan.seed, 'core', number + 1_000 * group)
    const core = createLeases({ ...outside, quorum, nodesMs, clockStepMs: CLOCK_STEP_MS, random: drawn })
    const leases = plan.whole ? withClaimDeadline(core, { clock, required, lateClaims }) : core
    const observed = observeLeases(leases, { process, scheduler, history, votes, showedOutcome })
    const guarded = plan.whole ? quorumBreaker({ required, random, ...outside })(observed) : observed
    return { observed, guarded, unnoted: leases }
  })
  const placement = placementOf(groups.map((_, group) => `group-${group}`))
  const routed = (which: 'observed' | 'guarded' | 'unnoted') => {
    const leases = groups.map((group) => group[which])
    const [only] = leases
    return leases.length === 1 && only !== undefined
      ? only
      : routeLeases(leases, placement, { required, agreed: () => true })
  }
  const observed = routed('observed')
  const guarded = routed('guarded')
  const shared = shareLeases({ leases: guarded, outcomeBytesMax: OUTCOMES_MAX_BYTES, ...outside })
  const own = createRedlockQuorum({
    nodes: createEmbeddedNodes(1, clock, MAX_TOKEN_AHEAD_MS, SILENT),
    clock,
    events: SILENT,
  })
  const writeBack = createWriteBack(createLeases({ quorum: own, clock, random, events: SILENT }), {
    leases: unattended(guarded, history, scheduler),
    random,
    ...outside,
  })
  return {
    process,
    links,
    leases: plan.whole ? shared : observed,
    guarded,
    operated: {
      unnoted: routed('unnoted'),
      inspect: (key) => {
        const from = placement(key) * plan.nodeCount
        const nodes = watched.nodes.slice(from, from + plan.nodeCount)
        return Promise.all(
          nodes.map(async (node) => ({ node: node.name, answer: await node.execute({ kind: 'read', key }) })),
        )
      },
      forgetHere: (key) => {
        if (plan.whole) shared.forget(key)
      },
    },
    whenEnded: plan.whole ? shared.whenEnded : () => undefined,
    localLeases: observeLocal(writeBack.local, process, scheduler, history),
    writeBack,
    waiters: createWaiters(8, 64),
    background,
    events,
    knownCluster: () => memberships[0]?.knownCluster(),
    forgot,
  }
}

/** As production has it, where the plan's clocks jump. In the other plans the rules hold without. */
function watchNodes(
  { watched }: Plan,
  links: readonly Link[],
  clock: Clock,
  onForwardJump: (index: number, jump: ForwardJump) => void,
): Pick<WatchedNodes, 'nodes' | 'saw'> {
  if (!watched) return { nodes: links, saw: () => true }
  return watchNodeClocks({
    nodes: links,
    clock,
    events: SILENT,
    suspendMs: () => CLUSTER.quarantineMs,
    maxSkewMs: MAX_TOKEN_AHEAD_MS,
    enforce: false,
    toleratedStepMs: CLOCK_STEP_MS,
    onForwardJump,
  })
}

/** Notes the claims whose answers showed a completed record. */
function notingOutcomes(node: RecordNode, showedOutcome: Set<string>): RecordNode {
  return {
    name: node.name,
    execute: async (command) => {
      const answer = await node.execute(command)
      if (command.kind === 'claim' && answer.kind === 'completed')
        showedOutcome.add(`${command.token} ${command.owner}`)
      return answer
    },
  }
}

/** Room for a few outcomes: some are evicted, and read from the nodes again. */
const OUTCOMES_MAX_BYTES = 1_500

/** No work is done under these leases: they are completed or released at once, or left to end. */
export function unattended(leases: Leases, history: History, scheduler: Scheduler): Leases {
  return {
    ...leases,
    claim: async (request) => {
      const result = await leases.claim(request)
      const grant = result.kind === 'granted' ? history.grantOf(result.lease) : undefined
      if (grant !== undefined) grant.abandonedMs ??= scheduler.nowMs
      return result
    },
  }
}

/** Notes what the process grants and records locally. */
function observeLocal(
  leases: Leases,
  process: SimulatedProcess,
  scheduler: Scheduler,
  history: History,
): Leases {
  const grantOf = (lease: Lease) =>
    history.localGrants.find((grant) => grant.process === process.name && grant.lease.owner === lease.owner)
  return {
    ...leases,
    claim: async (request) => {
      const askedMs = scheduler.nowMs
      const result = await leases.claim(request)
      if (result.kind === 'granted')
        history.localGrants.push(grantFrom(result.lease, process, askedMs, scheduler.nowMs))
      return result
    },
    renew: async (lease) => {
      const result = await leases.renew(lease)
      const grant = grantOf(lease)
      if (result.kind === 'renewed' && grant !== undefined)
        renewUntil(grant, process.historyMs(result.lease.validUntilMonoMs), scheduler.nowMs)
      return result
    },
    complete: async (lease, outcome) => {
      const result = await leases.complete(lease, outcome)
      const { key } = lease
      const [content, atMs] = [contentOf(outcome), scheduler.nowMs]
      if (result.kind === 'recorded')
        history.localCompletions.push({ key, process: process.name, content, atMs, writtenBack: undefined })
      return result
    },
    release: (lease) => {
      const grant = grantOf(lease)
      if (grant !== undefined) grant.releaseSentMs ??= scheduler.nowMs
      return leases.release(lease)
    },
  }
}

/** Its session works under it from here on, whatever its first call gave up before. */
function keep(grant: Grant): void {
  grant.kept = true
  if (!grant.withdrawn) return
  grant.withdrawn = false
  grant.releaseSentMs = undefined
}

function grantFrom(lease: Lease, process: SimulatedProcess, askedMs: number, grantedMs: number): Grant {
  return {
    lease,
    process: process.name,
    askedMs,
    grantedMs,
    // A claim is told as it is granted; only a raise is noted with the time that it took.
    tokens: [{ token: lease.token, askedMs: grantedMs, toldMs: grantedMs }],
    validUntilMs: process.historyMs(lease.validUntilMonoMs),
    gaps: [],
    releaseSentMs: undefined,
    withdrawn: false,
    kept: false,
    releasedMs: undefined,
    askedAgainMs: undefined,
    recordedMs: undefined,
    offered: undefined,
    offeredMs: undefined,
    ended: undefined,
    abandonedMs: undefined,
  }
}

type Observer = Pick<SidecarPorts, 'scheduler' | 'history' | 'votes'> & {
  readonly process: SimulatedProcess
  /** Claims (token and owner) for which an answer showed a completed record. */
  readonly showedOutcome: ReadonlySet<string>
}

function observeLeases(leases: Leases, observer: Observer): Leases {
  const { process, scheduler, history, votes, showedOutcome } = observer
  const renewed = async (lease: Lease, how: 'renew' | 'renewWithHigherToken'): Promise<RenewResult> => {
    const startedMs = scheduler.nowMs
    const result = await leases[how](lease)
    if (result.kind === 'lost') history.saw('renewal_lost')
    if (result.kind === 'lost' && isTaken(history, lease)) history.saw('fenced_by_operator')
    if (result.kind !== 'renewed') return result
    history.saw('renewed')
    votes.checkRenewal(result.lease, startedMs, scheduler.nowMs, process.clock.monoMs())
    history.renewed.push({ key: lease.key, owner: lease.owner, token: lease.token, askedMs: startedMs })
    const grant = history.grantRaisedTo(lease)
    // Its claimant died before it learnt of the grant; the session goes on with it elsewhere.
    if (grant === undefined) {
      const resumed = grantFrom(result.lease, process, startedMs, scheduler.nowMs)
      history.granted({ ...resumed, kept: how === 'renew', abandonedMs: scheduler.nowMs })
    } else {
      if (grant.lease.token !== lease.token) {
        history.saw('raised')
        grant.tokens.push({ token: lease.token, askedMs: startedMs, toldMs: scheduler.nowMs })
      }
      grant.lease = result.lease
      if (how === 'renew') keep(grant)
      renewUntil(grant, process.historyMs(result.lease.validUntilMonoMs), scheduler.nowMs)
    }
    return result
  }
  return {
    ...leases,
    claim: async (request) => {
      const askedMs = scheduler.nowMs
      for (const grant of history.grants) {
        const itself = grant.process === process.name && grant.lease.key === request.key
        if (itself && grant.lease.owner === request.owner) grant.askedAgainMs ??= askedMs
      }
      const result = await leases.claim(request)
      if (result.kind !== 'granted') return result
      const { lease } = result
      const grantedMs = scheduler.nowMs
      // The session asked again elsewhere meanwhile and resumed this very claim, before its claimant heard of it.
      const resumed = history.grantOf(lease)
      if (resumed === undefined || resumed.askedMs < askedMs)
        history.granted(grantFrom(lease, process, askedMs, grantedMs))
      history.saw('granted')
      history.step(grantedMs, 1, () => `${process.name} is granted ${lease.key}, token ${lease.token}`)
      votes.checkGrant(lease, grantedMs, process.clock.monoMs())
      if (lease.attempt > 1 && showedOutcome.has(`${lease.token} ${lease.owner}`)) {
        history.violated(
          'adoption',
          grantedMs,
          `token ${lease.token} was granted over an attempt that has an outcome`,
        )
      }
      return result
    },
    renew: (lease) => renewed(lease, 'renew'),
    renewWithHigherToken: (lease) => renewed(lease, 'renewWithHigherToken'),
    complete: async (lease, outcome) => {
      const grant = history.grantOf(lease)
      const content = contentOf(outcome)
      if (grant !== undefined) {
        grant.offered = content
        grant.offeredMs ??= scheduler.nowMs
      }
      const askedMs = scheduler.nowMs
      const result = await leases.complete(lease, outcome)
      const atMs = scheduler.nowMs
      history.step(atMs, 2, () => `${process.name} completes token ${lease.token}: ${result.kind}`)
      if (result.kind === 'recorded') {
        votes.checkRecorded(lease, encodeOutcome(outcome, lease.token))
        if (grant !== undefined) grant.recordedMs ??= atMs
        show(history, lease, content, { askedMs, atMs, by: 'created' })
      } else if (result.kind === 'fenced') {
        history.saw('fenced_completion')
        if (isTaken(history, lease)) history.saw('fenced_by_operator')
        history.refused.push({ key: lease.key, content, process: process.name, askedMs, atMs })
        if (result.winner !== undefined) {
          history.saw('winner_shown')
          show(history, lease, contentOf(result.winner.outcome), { askedMs, atMs, by: 'fenced' })
        }
      }
      return result
    },
    release: async (lease) => {
      const grant = history.grantOf(lease)
      if (grant !== undefined) grant.releaseSentMs ??= scheduler.nowMs
      const result = await leases.release(lease)
      if (grant !== undefined && result.kind === 'released') grant.releasedMs ??= scheduler.nowMs
      history.step(scheduler.nowMs, 3, () => `${process.name} releases token ${lease.token}: ${result.kind}`)
      return result
    },
    abortClaim: async (lease) => {
      const grant = history.grantOf(lease)
      if (grant !== undefined && grant.releaseSentMs === undefined && !grant.kept) {
        grant.releaseSentMs = scheduler.nowMs
        grant.withdrawn = true
      }
      const result = await leases.abortClaim(lease)
      if (grant?.withdrawn && result.kind === 'released') grant.releasedMs ??= scheduler.nowMs
      history.step(scheduler.nowMs, 3, () => `${process.name} withdraws token ${lease.token}: ${result.kind}`)
      return result
    },
    purge: async (lease) => {
      const result = await leases.purge(lease)
      history.step(
        scheduler.nowMs,
        3,
        () => `${process.name} forgets below token ${lease.token}: ${result.kind}`,
      )
      return result
    },
    read: async (key) => {
      const askedMs = scheduler.nowMs
      const result = await leases.read(key)
      if (result.kind === 'completed') {
        const { fingerprint, outcome } = result
        show(history, { key, fingerprint }, contentOf(outcome), {
          askedMs,
          atMs: scheduler.nowMs,
          by: 'read',
        })
      }
      return result
    },
  }
}

function isTaken(history: History, lease: Lease): boolean {
  return history.grantOf(lease)?.takenMs !== undefined
}

function show(
  history: History,
  { key, fingerprint }: Pick<Lease, 'key' | 'fingerprint'>,
  content: string,
  how: Pick<Shown, 'askedMs' | 'atMs' | 'by'>,
): void {
  history.shown.push({ key, fingerprint, content, ...how })
}

/** An outcome as its client sees it, in one word: which operation executed it. */
export function contentOf(outcome: StoredOutcome): string {
  switch (outcome.kind) {
    case 'response':
      return outcome.body.toString('latin1')
    case 'result':
      return String(outcome.result)
    case 'tombstone':
      return `tombstone ${outcome.status}`
  }
}

export function contentOfBytes(bytes: Buffer): string {
  const decoded = decodeOutcome(bytes)
  return decoded.kind === 'intact' ? contentOf(decoded.outcome) : decoded.reason
}

function observe(event: CoreEvent, process: SimulatedProcess, history: History, scheduler: Scheduler): void {
  switch (event.kind) {
    case 'takeover':
    case 'outcome_adopted':
    case 'conflict_repaired':
    case 'claim_expired':
      history.saw(event.kind)
      return
    case 'written_back': {
      history.saw(event.result === 'conflict' ? 'written_back_conflict' : 'written_back')
      const told = history.localCompletions.find(
        ({ key, process: at, writtenBack }) =>
          key === event.recordKey && at === process.name && writtenBack === undefined,
      )
      if (told === undefined) history.violated('W1', scheduler.nowMs, 'something else was written back')
      else told.writtenBack = event.result
      return
    }
    case 'claim_ended':
      if (event.rounds === 0 && event.result !== 'unavailable') history.saw('answered_from_memory')
      if (event.rounds === 0 && event.result === 'duplicate') history.saw('outcome_from_memory')
      if (event.result === 'unavailable') history.saw('quorum_lost')
      if (event.result === 'damaged') history.violated('S9', scheduler.nowMs, 'a record was damaged')
      return
    case 'lease_ended': {
      const atMs = scheduler.nowMs
      if (event.ended === 'expired') history.saw('lease_expired')
      if (event.ended === 'released') history.saw('released')
      const grant = openGrant(history, event, process)
      if (grant !== undefined) grant.ended ??= { how: event.ended, atMs }
      return
    }
    default:
      return
  }
}

/** A process keeps one lease of a key at a time, where no operator ended an earlier one that it does not know of yet. */
function openGrant(
  history: History,
  { recordKey, token }: Extract<CoreEvent, { kind: 'lease_ended' }>,
  process: SimulatedProcess,
): Grant | undefined {
  const isOpen = ({ lease, process: by, ended }: Grant) =>
    lease.key === recordKey && by === process.name && ended === undefined
  return (
    history.grants.findLast((grant) => isOpen(grant) && grant.lease.token === token) ??
    history.grants.findLast(isOpen)
  )
}
