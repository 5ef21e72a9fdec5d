/** The audit log: who decided what and why, and what the sidecars wrote down by themselves. */

import { useState } from 'preact/hooks'
import type { Entry } from '../http/operator/schemas.ts'
import type { Session } from './api.ts'
import { Answer, Heading, LookAgain, Pages, Time, usePages } from './pieces.tsx'
import { linkTo, visible } from './words.ts'

/** Of a page. */
const ENTRIES = 500

export function AuditView({ session }: { readonly session: Session }) {
  const { loaded, again, newest, older } = usePages(session, '/audit', ENTRIES)
  const [words, setWords] = useState('')
  const has = (entry: Entry) =>
    Object.values(entry).join(' ').toLowerCase().includes(words.trim().toLowerCase())
  return (
    <>
      <Heading title="Audit">Audit log</Heading>
      <div class="panel">
        <p>
          {ENTRIES} entries a page, newest first, merged from a majority of the nodes. Of each decision there
          are two: before it, and after it.
        </p>
        <label for="words">Only entries with</label>
        <input
          id="words"
          type="search"
          value={words}
          placeholder="a name, a ticket, a hash"
          onInput={(event) => setWords((event.currentTarget as HTMLInputElement).value)}
        />
        <LookAgain onClick={again} />
      </div>
      <Answer of={loaded}>
        {({ entries }) => (
          <History entries={[...entries].reverse().filter(has)} empty="There is no such entry." linked />
        )}
      </Answer>
      <Pages newest={newest} older={older} />
    </>
  )
}

type HistoryProps = {
  readonly entries: readonly Entry[]
  readonly empty: string
  /** Each entry leads to its record. */
  readonly linked?: boolean
}

export function History({ entries, empty, linked = false }: HistoryProps) {
  if (entries.length === 0) return <p role="status">{empty}</p>
  return (
    <ol class="history">
      {entries.map((entry) => (
        <li key={entry.id}>
          <p class="when">
            <Time at={entry.at} />
          </p>
          <p>
            <strong>{titleOf(entry)}</strong>
            {linked && hashOf(entry) !== undefined ? (
              <>
                {' '}
                on <a href={linkTo({ view: 'record', record: entry.record ?? '' })}>{hashOf(entry)}</a>
              </>
            ) : undefined}
          </p>
          {entry.reason === undefined ? undefined : <p class="reason">“{visible(entry.reason)}”</p>}
          <p class="hint">{restOf(entry)}</p>
        </li>
      ))}
    </ol>
  )
}

const NAMES: Readonly<Record<string, string>> = {
  orphan: 'Expired without an outcome',
  renewal_failed: 'Lease was not renewed, and its work went on',
  renewal_lost: 'Renewal lost: another holder came',
  fenced_completion: 'Late outcome refused',
  conflict: 'Two outcomes, one kept',
  degraded: 'Forwarded without protection',
}

function titleOf(entry: Entry): string {
  if (entry.kind !== 'operator') return NAMES[entry.kind] ?? visible(entry.kind)
  return visible(`${entry.by ?? 'somebody'}: ${entry.act ?? 'decided'} (${entry.step ?? 'done'})`)
}

function hashOf({ record = '' }: Entry): string | undefined {
  return /:[0-9a-f]{64}$/.test(record) ? record.slice(-64, -48) : undefined
}

const SHOWN = new Set(['id', 'at', 'kind', 'record', 'by', 'act', 'step', 'reason', 'fingerprint'])

/** Members that have no place of their own. */
function restOf(entry: Entry): string {
  return Object.entries(entry)
    .filter(([name, value]) => !SHOWN.has(name) && value !== undefined && value !== '')
    .map(([name, value]) => visible(`${name.replaceAll('_', ' ')}: ${value}`))
    .join(' · ')
}
