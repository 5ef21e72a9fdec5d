/**
 * Relations between settings, checked after all of them have been read.
 *
 * Each relation is an inequality of the record protocol (or of common sense); its message shows it with the numbers of
 * this configuration, because the operator has to choose which of the two to change. A relation with a refused value is
 * skipped: that value has an error of its own.
 */

import { DRIFT_FACTOR } from '../core/clock.ts'
import { SYNTHETIC_CALLS } from '../core/health/synthetic-claims.ts'
import { quarantineMsFor } from '../core/nodes/rejoin-rules.ts'
import { printDuration, printSize } from '../core/quantity.ts'
import { answerMaxAgeMs } from '../core/quorum/tally.ts'
import { type ProtectedRoute, policiesOf, type Route } from '../core/routes/route.ts'
import type { ConfigError } from './errors.ts'
import { fraction } from './parse.ts'
import { SETTINGS, type SettingKey, type Settings } from './settings.ts'

/** The accepted values: without refused settings, and without values of a route that default to them. */
type Known = {
  readonly settings: Partial<Settings>
  readonly route: Partial<ProtectedRoute>
  readonly longestLeaseMs: number
}

type Side = {
  readonly text: string
  readonly of: (known: Known) => number | undefined
  /** The setting that gives a route this number, unless the route has its own. */
  readonly setting?: (known: Known) => SettingKey
}

type Relation = {
  /** The owner of the relation: the setting to name, or every protected route. */
  readonly of: `FENCEPOST_${string}` | 'route'
  readonly left: Side
  readonly right: Side
  readonly otherwise: string
  /** Default: ms. */
  readonly unit?: 'share' | 'bytes'
}

/** Redlock requires a node deadline that is small against the lease, so that trying all nodes can't use it up. */
const LARGEST_DEADLINE_SHARE = 0.05

const LARGEST_RENEW_FRACTION = 1 / 3

const nodeDeadline: Side = { text: 'node deadline', of: ({ settings }) => settings.nodeDeadlineMs }

const TABLE: readonly Relation[] = [
  {
    of: SETTINGS.nodeDeadlineMs.env,
    left: nodeDeadline,
    right: {
      text: '5 % of the lease',
      of: ({ settings }) => times(settings.leaseMs, LARGEST_DEADLINE_SHARE),
    },
    otherwise: 'slow nodes would use up the lease',
  },
  {
    of: SETTINGS.nodeDeadlineMs.env,
    left: nodeDeadline,
    right: { text: 'claim budget', of: ({ settings }) => settings.claimBudgetMs },
    otherwise: 'one silent node would use up the whole budget',
  },
  {
    of: SETTINGS.nodeDeadlineMs.env,
    left: nodeDeadline,
    right: {
      text: 'oldest answer that counts',
      of: (known) => {
        const quarantineMs = known.settings.quarantineMs ?? neededQuarantineMs(known)
        return quarantineMs === undefined ? undefined : answerMaxAgeMs(quarantineMs)
      },
    },
    otherwise: 'answers would be waited for that do not count any more',
  },
  {
    of: SETTINGS.renewFraction.env,
    left: { text: 'renew fraction', of: ({ settings }) => settings.renewFraction },
    right: { text: 'a third of the validity', of: () => LARGEST_RENEW_FRACTION },
    otherwise: 'a lease would not outlive two failed renewals',
    unit: 'share',
  },
  {
    of: SETTINGS.renewFraction.env,
    left: nodeDeadline,
    right: {
      text: 'renew fraction of the lease',
      of: ({ settings }) => times(settings.leaseMs, settings.renewFraction),
    },
    otherwise: 'a lease would be renewed again before all nodes had answered',
  },
  {
    of: SETTINGS.quarantineMs.env,
    left: {
      text: `longest lease · ${1 + DRIFT_FACTOR} + 2ms + clock step`,
      of: neededQuarantineMs,
    },
    right: { text: 'quarantine', of: ({ settings }) => settings.quarantineMs },
    otherwise: 'a node that forgot would vote before every lease that it forgot has ended',
  },
  {
    of: SETTINGS.requestTimeoutMs.env,
    left: { text: 'time for the head', of: ({ settings }) => settings.headersTimeoutMs },
    right: { text: 'time for the whole request', of: ({ settings }) => settings.requestTimeoutMs },
    otherwise: 'the head is a part of it',
  },
  {
    of: SETTINGS.readyBelowMs.env,
    left: { text: 'ready below', of: ({ settings }) => settings.readyBelowMs },
    right: { text: 'unready above', of: ({ settings }) => settings.unreadyAboveMs },
    otherwise: 'the pod would be ready and unready at once',
  },
  {
    of: SETTINGS.readinessMinSamples.env,
    left: {
      text: `min samples · ${SYNTHETIC_CALLS} · ready below`,
      of: ({ settings }) =>
        times(times(settings.readyBelowMs, SYNTHETIC_CALLS), settings.readinessMinSamples),
    },
    right: {
      text: 'half of the readiness window',
      of: ({ settings }) => times(settings.readinessWindowMs, 1 / 2),
    },
    otherwise:
      'a pod without requests, such as an unready one, could not make enough claims of its own to be judged by',
  },
  {
    of: 'route',
    left: nodeDeadline,
    right: { text: '5 % of the lease', of: ({ route }) => times(route.leaseMs, LARGEST_DEADLINE_SHARE) },
    otherwise: 'slow nodes would use up the lease',
  },
  {
    of: 'route',
    left: nodeDeadline,
    right: {
      text: 'renew fraction of the lease',
      of: ({ settings, route }) => times(route.leaseMs, settings.renewFraction),
    },
    otherwise: 'a lease would be renewed again before all nodes had answered',
  },
  {
    of: 'route',
    left: nodeDeadline,
    right: { text: 'claim budget', of: ({ route }) => route.budgetMs },
    otherwise: 'one silent node would use up the whole budget',
  },
  {
    of: 'route',
    left: {
      text: 'client retry window + lease + longest redelivery',
      of: ({ settings, route }) =>
        sum(settings.clientRetryWindowMs, route.leaseMs, settings.longestRedeliveryMs),
    },
    right: {
      // Without a key a request that comes later is another one.
      text: 'retention with a key',
      of: ({ route }) => (route.mode === 'content' ? undefined : route.retentionMs),
      setting: () => 'retentionMs',
    },
    otherwise: 'a late retry would be carried out again',
  },
  {
    of: 'route',
    left: { text: 'body limit', of: ({ route }) => route.bodyLimitBytes },
    right: {
      text: 'three quarters of the body memory',
      of: ({ settings }) => times(settings.bodyMemoryBytes, 3 / 4),
      setting: () => 'bodyMemoryBytes',
    },
    otherwise: 'the largest body that is accepted could never be',
    unit: 'bytes',
  },
  {
    of: 'route',
    left: { text: 'upstream timeout', of: ({ route }) => route.upstreamTimeoutMs },
    right: { text: 'total hold limit', of: ({ route }) => route.totalHoldMs, setting: () => 'totalHoldMs' },
    otherwise: 'the record would be given up while the application still works',
  },
]

/** For the documentation. */
export const RELATIONS = TABLE.map(({ of, left, right, otherwise }) => ({
  of,
  text: `${left.text} ≤ ${right.text}`,
  otherwise,
}))

export function checkRelations(
  settings: Partial<Settings>,
  routes: readonly Route[],
): { readonly errors: readonly ConfigError[]; readonly quarantineMs: number } {
  const protectedRoutes = routes.flatMap(policiesOf)
  const longestLeaseMs = Math.max(
    ...[
      settings.leaseMs,
      settings.reservationMaxLeaseMs,
      ...protectedRoutes.map(({ leaseMs }) => leaseMs),
    ].map((leaseMs) => leaseMs ?? 0),
  )
  const errors = TABLE.flatMap((relation) =>
    relation.of === 'route'
      ? // An error of a setting is reported once, not again for every route with its value.
        protectedRoutes
          .filter((route) => !sameAsSettings(relation, { settings, route, longestLeaseMs }))
          .flatMap((route) => check(relation, `route ${route.name}`, { settings, route, longestLeaseMs }))
      : check(relation, relation.of, { settings, route: {}, longestLeaseMs }),
  )
  const quarantineMs = settings.quarantineMs ?? neededQuarantineMs({ settings, longestLeaseMs }) ?? 0
  return { errors, quarantineMs }
}

function neededQuarantineMs({
  settings: { clockStepMs },
  longestLeaseMs,
}: Omit<Known, 'route'>): number | undefined {
  return clockStepMs === undefined ? undefined : quarantineMsFor(longestLeaseMs, clockStepMs)
}

function check(
  { left, right, otherwise, unit }: Relation,
  name: string,
  known: Known,
): readonly ConfigError[] {
  const smaller = left.of(known)
  const larger = right.of(known)
  if (smaller === undefined || larger === undefined || smaller <= larger) return []
  const print = PRINT[unit ?? 'ms']
  const inequality = `${left.text} (${print(smaller)}) ≤ ${right.text} (${print(larger)}${from(right, known)})`
  return [{ kind: 'relation', name, inequality, reason: otherwise }]
}

/** If the number of a route comes from a setting, the setting is what must change. */
function from({ of, setting }: Side, known: Known): string {
  const key = setting?.(known)
  return key !== undefined && known.settings[key] === of(known) ? `, ${SETTINGS[key].env}` : ''
}

/** Whether a relation of the settings compares these two numbers already. */
function sameAsSettings(relation: Relation, known: Known): boolean {
  return TABLE.some(
    (other) =>
      other.of !== 'route' &&
      other.left === relation.left &&
      other.right.text === relation.right.text &&
      other.right.of(known) === relation.right.of(known),
  )
}

function times(amount: number | undefined, factor: number | undefined): number | undefined {
  return amount === undefined || factor === undefined ? undefined : amount * factor
}

function sum(...amounts: readonly (number | undefined)[]): number | undefined {
  return amounts.reduce<number | undefined>(
    (total, each) => (total === undefined || each === undefined ? undefined : total + each),
    0,
  )
}

const PRINT = {
  ms: printMs,
  share: fraction().print,
  bytes: printSize,
}

function printMs(ms: number): string {
  return Number.isInteger(ms) ? printDuration(ms) : `${ms}ms`
}
