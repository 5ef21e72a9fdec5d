/**
 * Records that are looked for: by what support has of one, or all that are live or lapsed.
 *
 * Owns what is said of records that are not found. Nothing is called absent, and no list whole, that too few nodes could be
 * read for.
 */

import type { RecentDecisions } from '../../core/operator/recent-decisions.ts'
import { json, type OperatorAnswer, problem, refusal, unavailable } from './access.ts'
import type { FindInput } from './find-schemas.ts'
import { type LocatingOptions, locate } from './locating.ts'
import { type ListInput, OPERATOR_LIMITS } from './schemas.ts'
import type { ShowingPorts } from './showing.ts'
import { oldestFirst, type Summary, summaryOf } from './shown.ts'

/** A part of a walk over the keys of the nodes, in small steps. */
export type SearchStep = {
  readonly records: readonly string[]
  readonly cursor?: string
  /** At the end of a walk: too few nodes could be read, so there may be records that it has not found. */
  readonly incomplete?: true
}

export type FindingPorts = Pick<ShowingPorts, 'inspect' | 'auditLog' | 'clock'> & {
  readonly recent: RecentDecisions
  /** Records whose hash begins with these digits, on from a cursor. */
  readonly search: (digits: string, cursor: string | undefined) => Promise<SearchStep>
  /** Claims in this state as one node shows them, on from a cursor. */
  readonly list: (state: 'live' | 'lapsed', cursor: string | undefined) => Promise<SearchStep>
}

export async function find(
  input: FindInput,
  options: LocatingOptions,
  ports: FindingPorts,
): Promise<OperatorAnswer> {
  const located = await locate(input, options)
  switch (located.kind) {
    case 'refused':
      return refusal(located.problem)
    case 'keys': {
      const all = await summariesOf(located.keys, ports)
      const records = located.certain ? all : all.filter(({ state }) => state !== 'absent')
      if (records.length > 0) return json({ records })
      return located.otherwise === undefined ? NO_RECORD : refusal(located.otherwise)
    }
    case 'instance': {
      const recordKey = ports.recent.recordOf(located.instance)
      return recordKey === undefined
        ? NOT_REMEMBERED
        : json({ records: await summariesOf([recordKey], ports) })
    }
    case 'search': {
      // Most questions are about what has just been decided here, or waits as a dead letter: no walk is needed.
      const near = await rememberedWith(located.digits, ports)
      const records = (await summariesOf(near, ports)).filter(({ state }) => state !== 'absent')
      if (records.length > 0) return json({ records })
      const step = await ports.search(located.digits, input.cursor)
      if (step.records.length > 0 || step.cursor !== undefined) return listed(step, ports)
      return step.incomplete ? NOT_LOOKED_FOR : NO_RECORD
    }
  }
}

async function rememberedWith(
  digits: string,
  { recent, auditLog }: FindingPorts,
): Promise<readonly string[]> {
  const remembered = recent.recordsWith(digits)
  if (remembered.length > 0) return remembered
  const reads = await Promise.all(
    (['dead-letters', 'audit'] as const).map((stream) => auditLog.read(stream, OPERATOR_LIMITS.historyMax)),
  )
  const keys = reads.flatMap((read) =>
    read.kind === 'entries' ? read.entries.map(({ recordKey }) => recordKey) : [],
  )
  return [...new Set(keys.filter((key) => key.slice(-64).startsWith(digits)))]
}

export async function list({ state, cursor }: ListInput, ports: FindingPorts): Promise<OperatorAnswer> {
  // Without a verdict it may be what is asked for, as the node shows it.
  return listed(await ports.list(state, cursor), ports, (one) => [state, 'unknown'].includes(one.state))
}

async function listed(
  { records, ...rest }: SearchStep,
  ports: FindingPorts,
  isWanted: (summary: Summary) => boolean = () => true,
): Promise<OperatorAnswer> {
  const wanted = (await summariesOf(records, ports)).filter(isWanted).sort(oldestFirst)
  return json({ records: wanted, ...rest })
}

function summariesOf(
  recordKeys: readonly string[],
  { inspect, clock }: FindingPorts,
): Promise<readonly Summary[]> {
  return Promise.all(recordKeys.map(async (key) => summaryOf(await inspect(key), clock.wallMs())))
}

const NO_RECORD = problem(
  'record-unknown',
  'No node has a record of it: it never came, was released and forgotten, or is older than its retention. Check tenant, API version and principal, too.',
)

const NOT_LOOKED_FOR = unavailable(
  'Too few nodes can be read to say whether there is such a record. None of those that can be read has one.',
)

const NOT_REMEMBERED = problem(
  'record-unknown',
  'This sidecar does not remember the answer with this instance: another one gave it, or it is too long ago. Search the logs for the instance; the line has key_hash.',
)
