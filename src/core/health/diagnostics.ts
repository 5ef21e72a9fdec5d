/**
 * What is not well with an installation, and what to do: judged from what was read of its nodes, certificates, application and sidecar.
 *
 * Owns the judgement and its sentences, one for each check. What could not be read is `unknown` and never `ok`.
 */

import { sentenceOf } from '../node-faults.ts'
import { placeOf } from '../node-status.ts'
import type { Installation, NodeDetails, NodeSeen } from './installation.ts'

export type Finding = {
  readonly check: string
  readonly verdict: 'ok' | 'warning' | 'failed' | 'unknown'
  /** What is so, and after a colon what to do where something is to be done. */
  readonly says: string
}

const DAY_MS = 86_400_000
const HOUR_MS = 3_600_000
/**
 * Of a certificate of a year. One that is renewed each day or week by itself has a share of its life left instead: a quarter is below
 * what is left when cert-manager renews (a third).
 */
const WARN_MS = 30 * DAY_MS
const WARN_SHARE = 1 / 4
const FAIL_MS = 7 * DAY_MS
const FAIL_SHARE = 1 / 10
/** New claims stop at 90 % of a node's memory. */
const WARN_MEMORY = 0.7
const FAIL_MEMORY = 0.9

export function diagnose(of: Installation): readonly Finding[] {
  return [
    rules(of),
    ...of.groups.flatMap((group) => [
      majority(group, of.required),
      ...group.nodes.flatMap((node) => reachable(node, group)),
      ...group.nodes.flatMap(silentAddresses),
      independence(group, of.required),
    ]),
    ...aboutDetails(of),
    ...certificates(of),
    ...application(of),
    sidecar(of),
    ...sidecarVotes(of),
    ...(of.nearMisses ?? []).map((says) => finding('near misses', 'warning', says)),
  ]
}

export function failed(findings: readonly Finding[]): boolean {
  return findings.some(({ verdict }) => verdict === 'failed')
}

function finding(check: string, verdict: Finding['verdict'], says: string): Finding {
  return { check, verdict, says }
}

function rules({ rules: { names, builtIn } }: Installation): Finding {
  const from = builtIn ? 'the built-in policy; FENCEPOST_CONFIG names a file with your own' : 'the file'
  if (names.length === 0)
    return finding('rules', 'warning', 'no route is protected: add routes to FENCEPOST_CONFIG')
  return finding('rules', 'ok', `${names.length} routes from ${from}: ${names.join(', ')}`)
}

type Group = Installation['groups'][number]

const inGroup = ({ name }: Group) => (name === '' ? '' : ` of group ${name}`)

function majority(group: Group, required: number): Finding {
  const voting = group.nodes.filter(({ state }) => state === 'voting').length
  const says = `${voting} of ${group.nodes.length} nodes${inGroup(group)} vote, ${required} are needed`
  const todo = group.standstill ?? 'bring nodes back, or see `fencepost nodes status`'
  if (voting < required) return finding('quorum', 'failed', `${says}: ${todo}`)
  return voting < group.nodes.length
    ? finding('quorum', 'warning', `${says}: bring the others back before one more is lost`)
    : finding('quorum', 'ok', says)
}

function reachable({ state, reason = '', remedy, ...node }: NodeSeen, { standstill }: Group): Finding[] {
  const says = `${placeOf(node)} ${state === 'voting' ? 'takes no writes' : `is ${state}`}: ${sentenceOf({ reason, remedy })}`
  if (state === 'voting') return reason === '' ? [] : [finding('node', 'failed', says)]
  if (state !== 'quarantined') return [finding('node', 'failed', says)]
  const why =
    standstill === undefined
      ? ` yet: ${sentenceOf({ reason, remedy })}`
      : ` (${reason}), and no time that passes gives it a vote: see quorum`
  return [finding('node', 'warning', `${placeOf(node)} answers and does not vote${why}`)]
}

/** The node answers at another one, so nothing fails before that one does: where all are silent, the node is down. */
function silentAddresses({ ips, silent, ...node }: NodeSeen): Finding[] {
  if (silent.length === 0 || silent.length === ips.length) return []
  const says = `${placeOf(node)} does not answer at ${silent.join(', ')}, and its name leads there, too: mend the route, or take the address out of DNS`
  return [finding('addresses', 'warning', says)]
}

/** From here a machine shows by its address alone: two nodes behind different addresses may still share one. */
function independence(group: Group, required: number): Finding {
  const byIp = new Map<string, string[]>()
  for (const { name, ips } of group.nodes) for (const ip of ips) byIp.set(ip, [...(byIp.get(ip) ?? []), name])
  const most = [...byIp].reduce((a, b) => (b[1].length > a[1].length ? b : a), ['', []] as [string, string[]])
  const [ip, names] = most
  const spare = group.nodes.length - required
  const unknown = `the nodes${inGroup(group)} have different addresses; machine and zone do not show from here: compare \`kubectl get pods -o wide\` with the zones of those machines`
  if (names.length < 2) return finding('independence', 'unknown', unknown)
  const loss = names.length > spare ? ': its loss is the loss of the quorum' : ''
  const says = `${names.join(', ')} are at one address, ${ip}${loss}: put each node on a machine of its own`
  return finding('independence', 'warning', says)
}

const LAST_WRITES =
  'what was written in about the last second is gone where it is killed (`appendfsync` is not `always`, a replica is connected, or CONFIG GET is not allowed): where more than a minority is at once, with their data, the cluster stays closed until `fencepost nodes declare-loss`. `CONFIG SET appendfsync always`, `no-appendfsync-on-rewrite no`, and the same in its configuration'

function aboutDetails(of: Installation): Finding[] {
  const known = of.groups.flatMap(({ nodes }) =>
    nodes.flatMap(({ name, details }) => (details === undefined ? [] : [{ name, ...details }])),
  )
  if (known.length === 0)
    return ['persistence', 'last writes', 'eviction', 'clocks', 'round trips', 'node versions', 'memory'].map(
      (check) => finding(check, 'unknown', 'no node answers: bring one back and repeat this'),
    )
  const names = (all: readonly { readonly name: string }[]) => all.map(({ name }) => name).join(', ')
  const some = (
    check: string,
    bad: readonly { readonly name: string }[],
    verdict: 'warning' | 'failed',
    todo: string,
    ok: string,
  ) => (bad.length === 0 ? finding(check, 'ok', ok) : finding(check, verdict, `${names(bad)}: ${todo}`))
  const unsaved = known.filter(({ appendOnly, appendOnlyOk }) => !appendOnly || !appendOnlyOk)
  const versions = new Set(known.map(({ version }) => version))
  const each = known.map(({ name, version }) => `${name} ${version}`).join(', ')
  return [
    some(
      'persistence',
      unsaved,
      'warning',
      'no working append-only file: `CONFIG SET appendonly yes` while it runs, then the same in its configuration (started with that first, it leaves its RDB file unread and has forgotten every record); where it has one, check the disk',
      'each node writes an append-only file',
    ),
    some(
      'last writes',
      known.filter((node) => !unsaved.includes(node) && !node.durable),
      'warning',
      LAST_WRITES,
      'each node has a write on its disk before it answers',
    ),
    some(
      'eviction',
      known.filter(({ evictionPolicy }) => evictionPolicy !== 'noeviction'),
      'failed',
      'a node that evicts forgets records: set `maxmemory-policy noeviction`',
      'no node evicts',
    ),
    some(
      'clocks',
      known.filter(({ clock }) => Math.abs(clock.offsetMs) - clock.uncertaintyMs > of.maxSkewMs),
      'warning',
      `further than ${of.maxSkewMs} ms (FENCEPOST_CLOCK_MAX_SKEW) from the clock of this machine: synchronise them`,
      `each within ${of.maxSkewMs} ms of the clock of this machine, at most ${Math.round(Math.max(...known.map(({ clock }) => Math.abs(clock.offsetMs))))} ms off`,
    ),
    some(
      'round trips',
      known.filter(({ clock }) => 2 * clock.uncertaintyMs > of.nodeDeadlineMs),
      'failed',
      `${of.nodeDeadlineMs} ms (FENCEPOST_NODE_DEADLINE) are over before an answer of it comes, so no request can count on it: raise that, with it FENCEPOST_CLAIM_BUDGET and FENCEPOST_REDIS_CONNECT_TIMEOUT, or use nodes that are nearer`,
      `each node answers within ${Math.ceil(2 * Math.max(...known.map(({ clock }) => clock.uncertaintyMs)))} ms, and has ${of.nodeDeadlineMs} (FENCEPOST_NODE_DEADLINE)`,
    ),
    versions.size === 1
      ? finding('node versions', 'ok', `each node runs ${[...versions][0]}`)
      : finding('node versions', 'warning', `${each}: bring them to one version, one node after the other`),
    ...known.map((node) => memory(node, of.longestRetentionMs)),
  ]
}

/**
 * At an even rate the oldest key of a node is twice as old as the mean one, and what a whole retention comes to follows from how much
 * of it has gone by. Records with a shorter retention make the estimate too small and never too large, so it never falls below what is used.
 */
function memory(
  { name, usedBytes, limitBytes, meanLeftMs }: NodeDetails & { readonly name: string },
  retentionMs: number,
): Finding {
  const unlimited = `${name} has no \`maxmemory\`: set it below the memory of its container, or the kernel kills the node when it is full`
  if (limitBytes === 0) return finding('memory', 'warning', unlimited)
  const gone = Math.min(1, (2 * (retentionMs - meanLeftMs)) / retentionMs)
  const later = meanLeftMs > 0 && gone > 0.01 ? usedBytes / gone : undefined
  const share = Math.max(usedBytes, later ?? 0) / limitBytes
  const percent = (bytes: number) => `${Math.round((100 * bytes) / limitBytes)} %`
  const rate =
    later === undefined
      ? 'too few records to tell a rate'
      : `at today's rate ${percent(later)} after a whole retention`
  const says = `${name} uses ${percent(usedBytes)} of ${Math.round(limitBytes / 2 ** 20)} MiB, ${rate}`
  const raise = 'new claims stop at 90 %; raise `maxmemory`, or shorten retention or answers'
  if (share >= FAIL_MEMORY) return finding('memory', 'failed', `${says}: ${raise}`)
  const plan = 'plan more memory, or a shorter retention (docs/operations/capacity.md)'
  return share >= WARN_MEMORY
    ? finding('memory', 'warning', `${says}: ${plan}`)
    : finding('memory', 'ok', says)
}

function certificates({ certificates: given, groups, wallMs }: Installation): Finding[] {
  const ofNodes = groups.flatMap(({ nodes }) =>
    nodes.flatMap(({ name, details }) =>
      details?.certificate === undefined ? [] : [{ name: `of ${name}`, ...details.certificate }],
    ),
  )
  const all = [...given, ...ofNodes]
  if (all.length === 0) return [finding('certificates', 'ok', 'none is configured')]
  return all.map(({ name, fromMs, untilMs }) => {
    const [lifeMs, leftMs] = [untilMs - fromMs, untilMs - wallMs]
    if (Number.isNaN(lifeMs))
      return finding('certificates', 'failed', `${name} cannot be read: give a PEM file`)
    const says = leftMs < 0 ? `${name} ended ${span(-leftMs)} ago` : `${name} is valid for ${span(leftMs)}`
    if (leftMs < Math.min(FAIL_MS, FAIL_SHARE * lifeMs))
      return finding('certificates', 'failed', `${says}: renew it now`)
    return leftMs < Math.min(WARN_MS, WARN_SHARE * lifeMs)
      ? finding('certificates', 'warning', `${says}: renew it`)
      : finding('certificates', 'ok', says)
  })
}

/** Whole units that are over, the larger one from two of it on. */
function span(ms: number): string {
  return ms < 2 * DAY_MS ? `${Math.floor(ms / HOUR_MS)} hours` : `${Math.floor(ms / DAY_MS)} days`
}

/** No failure: it may be reachable from the sidecars alone, as one that listens on localhost. */
function application({ application: behind }: Installation): Finding[] {
  if (behind === undefined) return []
  const { address, fault } = behind
  const says =
    fault === undefined
      ? `${address} takes connections`
      : `${address} takes no connection from here (${fault}), and where a sidecar meets the same, requests get 502: start it, or set FENCEPOST_UPSTREAM right; if it is on localhost, run this in the pod`
  return [finding('application', fault === undefined ? 'ok' : 'warning', says)]
}

/** What it does not count although the node itself would vote: of a clock that was stepped running sidecars alone know. */
function sidecarVotes({ versions: { admin }, atSidecar = [], groups, required }: Installation): Finding[] {
  return groups.flatMap((group) => {
    const seen = atSidecar.filter((node) => (node.group ?? '') === group.name)
    const counted = seen.filter(({ state }) => state === 'voting').length
    const voting = new Set(group.nodes.flatMap(({ name, state }) => (state === 'voting' ? [name] : [])))
    const why = seen
      .filter(({ name, state }) => state !== 'voting' && voting.has(name))
      .map(
        ({ name, state, reason = '' }) =>
          `${name} votes when it is asked from here and is ${state} there (${reason})`,
      )
    if (why.length === 0) return []
    const says = `the sidecar at ${admin} counts ${counted} of ${seen.length} nodes${inGroup(group)}: ${why.join(', ')}; where it is suspended, see FencepostClockStepped in docs/operations/runbooks.md`
    return [finding('sidecar votes', counted < required ? 'failed' : 'warning', says)]
  })
}

function sidecar({ versions: { own, admin, sidecar: theirs } }: Installation): Finding {
  const of = (verdict: Finding['verdict'], says: string) => finding('sidecar version', verdict, says)
  if (theirs === undefined)
    return of('unknown', `no sidecar answers at ${admin}: run this in its pod, or give --admin`)
  return theirs === own
    ? of('ok', `the sidecar at ${admin} runs ${own}, as this command`)
    : of('warning', `the sidecar at ${admin} runs ${theirs}, this command ${own}: finish the rollout`)
}
