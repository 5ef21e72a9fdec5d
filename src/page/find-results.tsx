/**
 * What a search or a list has found so far.
 *
 * Owns the bound: of a list the oldest records are kept and shown, because who waits longest is asked about first. A list
 * may have a million records, and a tab must not.
 */

import type { Found, Listed } from '../http/operator/schemas.ts'
import { Badge, Button, Failure, TableOf } from './pieces.tsx'
import { duration, linkTo, visible } from './words.ts'

const SHOWN_MAX = 200

export type Oldest = {
  /** Oldest first. */
  readonly records: readonly Listed[]
  /** There were more, all of them younger. */
  readonly more: boolean
  /** Too few nodes could be read: there may be records that were not found. */
  readonly incomplete: boolean
}

export const NONE: Oldest = { records: [], more: false, incomplete: false }

export type Result =
  | { readonly kind: 'none' }
  | {
      readonly kind: 'looking' | 'stopped'
      readonly what: string
      readonly found: Oldest
      readonly steps: number
    }
  | { readonly kind: 'found'; readonly what: string; readonly found: Oldest }
  | { readonly kind: 'failed'; readonly error: unknown }

/** Nodes are walked one after the other, so a record may come several times. */
export function oldestOf({ records, more }: Oldest, { records: further, incomplete }: Found): Oldest {
  const known = new Map([...records, ...further].map((one) => [one.record, one]))
  // By time and not by age: pages were looked at one after the other.
  const inOrder = [...known.values()].sort((a, b) => timeOf(a).localeCompare(timeOf(b)))
  return {
    records: inOrder.slice(0, SHOWN_MAX),
    more: more || inOrder.length > SHOWN_MAX,
    incomplete: incomplete === true,
  }
}

const INCOMPLETE = 'Too few nodes can be read: there may be records that are not listed.'

/** What nobody claims comes last. */
function timeOf({ claimed_at: at = 'never' }: Listed): string {
  return at
}

export function ResultView({ result, onStop }: { readonly result: Result; readonly onStop: () => void }) {
  switch (result.kind) {
    case 'none':
      return <div role="status" />
    case 'failed':
      return <Failure error={result.error} />
    case 'looking':
      return (
        <>
          <p role="status">
            Looking … {result.steps === 0 ? '' : `${result.steps} steps, at most 50,000 keys each.`}{' '}
            <Button onClick={onStop}>Stop</Button>
          </p>
          <Records {...result} />
        </>
      )
    case 'stopped':
      return (
        <>
          <p role="status">Stopped after {result.steps} steps: there may be older ones.</p>
          <Records {...result} />
        </>
      )
    case 'found':
      return (
        <>
          {result.found.incomplete ? <Failure error={INCOMPLETE} /> : undefined}
          {result.found.records.length > 0 ? (
            <Records {...result} />
          ) : result.found.incomplete ? undefined : (
            <p role="status">There is none.</p>
          )}
        </>
      )
  }
}

function Records({ found: { records, more }, what }: { readonly found: Oldest; readonly what: string }) {
  if (records.length === 0) return null
  const many = more
    ? `The oldest ${records.length} of more`
    : `${records.length} ${records.length === 1 ? 'record' : 'records'}`
  return (
    <TableOf
      caption={`${many}, ${what}`}
      heads={['Record', 'State', 'Tenant', 'Attempt', 'Claimed for', 'Lease left']}
    >
      {records.map((one) => (
        <tr key={one.record}>
          <td>
            <a href={linkTo({ view: 'record', record: one.record })}>
              <code>{one.key_hash.slice(0, 16)}</code>
            </a>
            {one.sort === 'work' ? '' : ` (${one.sort})`}
          </td>
          <td>
            <Badge word={one.state} />
          </td>
          <td>{visible(one.tenant ?? '')}</td>
          <td>{one.attempt}</td>
          <td>{one.claimed_for_ms === undefined ? '' : duration(one.claimed_for_ms)}</td>
          <td>{one.lease_remaining_ms === undefined ? '' : duration(one.lease_remaining_ms)}</td>
        </tr>
      ))}
    </TableOf>
  )
}
