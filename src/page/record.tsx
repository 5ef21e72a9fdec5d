/** One record: the verdict of the quorum, the nodes side by side, the stored answer, what can be decided, and its history. */

import { useRef, useState } from 'preact/hooks'
import type { Shown as RecordShown } from '../http/operator/schemas.ts'
import type { Session } from './api.ts'
import { History } from './audit.tsx'
import { type Known, useLive } from './live.ts'
import { Badge, Button, Facts, Failure, Heading, Time, Verbatim } from './pieces.tsx'
import { RecordDecisions, type RecordDecisionsProps } from './record-decisions.tsx'
import { asText, duration, linkTo, said, visible } from './words.ts'

/** As docs/operations/one-key.md says it. */
const MEANING: Readonly<Record<RecordShown['state'], string>> = {
  live: 'An attempt is under way, or it ended without an answer and its lease is not over yet: look again when that is.',
  expired: 'An attempt ended without an outcome: nobody knows whether it was executed.',
  completed: 'The outcome is recorded; duplicates get it.',
  released: 'It was not executed, or somebody decided so. The next request is executed.',
  absent:
    'No node has it: the next request is executed. Should it be here? Then it has another tenant, API version or client, or it is older than its retention.',
  unknown: 'Too few nodes reply: no decision is possible.',
  damaged: 'The outcome can’t be read.',
}

/**
 * Live, but where a decision is open: what is under the hands of its reader stays as it was when the decision was opened, with the
 * token that its reader saw, and says that the record has changed.
 */
export function RecordView({ record, session }: { readonly record: string; readonly session: Session }) {
  const { known, trouble, failure, again } = useLive<RecordShown>(
    session,
    `/records/${encodeURIComponent(record)}`,
  )
  const [held, setHeld] = useState<Known<RecordShown>>()
  const shown = held ?? known
  const lookAgain = async () => {
    const now = await again()
    setHeld((before) => before && (now ?? known))
  }
  return (
    <>
      <Heading title="Record">
        Record <code>{visible(record.slice(-64, -48))}</code>
      </Heading>
      <p>
        <Button onClick={() => void lookAgain()}>Look again</Button>
        {shown === undefined ? undefined : (
          <span class="hint">
            As it was at <Time at={shown.at} />
            {held !== undefined
              ? '. It stands still while a decision is open.'
              : trouble === undefined
                ? ', live.'
                : `; not live: ${trouble}`}
          </span>
        )}
      </p>
      {failure === undefined ? undefined : <Failure error={failure} />}
      {shown !== undefined ? (
        <>
          <Announced word={wordOf(shown.value)} />
          <Shown
            shown={shown.value}
            session={session}
            decisions={{
              changed:
                held === undefined || known === undefined || isAlike(held.value, known.value)
                  ? undefined
                  : wordOf(known.value),
              onUse: () => setHeld((before) => before ?? known),
              onLeave: () => setHeld(undefined),
              onDecided: () => {
                setHeld(undefined)
                void again()
              },
              onShowChange: () => void lookAgain(),
            }}
          />
        </>
      ) : failure === undefined ? (
        <p role="status">Looking …</p>
      ) : undefined}
    </>
  )
}

type ShownProps = {
  readonly shown: RecordShown
  readonly session: Session
  readonly decisions: Omit<RecordDecisionsProps, 'shown' | 'session'>
}

function Shown({ shown, session, decisions }: ShownProps) {
  return (
    <>
      <Verdict shown={shown} />
      <Nodes shown={shown} />
      {shown.outcome === undefined ? undefined : (
        <OutcomeView outcome={shown.outcome} role={session.operator.role} />
      )}
      <RecordDecisions shown={shown} session={session} {...decisions} />
      <section class="panel" aria-labelledby="history">
        <h2 id="history">History</h2>
        {shown.history_since === undefined ? undefined : (
          <p class="hint">
            Of the audit log since <Time at={shown.history_since} />; what is older is under{' '}
            <a href={linkTo({ view: 'audit' })}>Audit</a>.
          </p>
        )}
        {shown.history === undefined ? (
          <p>Too few nodes told it.</p>
        ) : (
          <History entries={shown.history} empty="The audit log has nothing about it." />
        )}
      </section>
    </>
  )
}

function wordOf({ state, attempt }: RecordShown): string {
  return attempt === undefined ? state : `${state}, attempt ${attempt}`
}

function isAlike(one: RecordShown, other: RecordShown): boolean {
  return one.fencing_token === other.fencing_token && wordOf(one) === wordOf(other)
}

/** To a screen reader, once for each change: what was there when the view was opened is read with its heading. */
function Announced({ word }: { readonly word: string }) {
  const first = useRef(word)
  const hasChanged = useRef(false)
  hasChanged.current ||= word !== first.current
  return (
    <p class="unseen" role="status">
      {hasChanged.current ? `The record is ${word} now.` : undefined}
    </p>
  )
}

function Verdict({ shown }: { readonly shown: RecordShown }) {
  const { holder, in_application: known, state } = shown
  return (
    <section class="panel" aria-labelledby="verdict">
      <h2 id="verdict">
        The quorum says: <Badge word={state} />
      </h2>
      <p>
        {MEANING[state]} {shown.damage === undefined ? '' : `Why: ${visible(shown.damage)}. `}
        {shown.answered} nodes replied, {shown.required} are required.
        {shown.minority_outcome
          ? ' A node shows an outcome that no majority has: the next claim adopts it.'
          : ''}
      </p>
      <Facts
        of={[
          ['Record', <code>{visible(shown.record)}</code>],
          ['Tenant', visible(shown.tenant ?? '')],
          ['Attempt', shown.attempt],
          ['Fencing token', shown.fencing_token],
          ['Fingerprint', shown.fingerprint === undefined ? undefined : <code>{shown.fingerprint}</code>],
          ['Lease left', said(shown.lease_remaining_ms, duration)],
          ['Kept for', said(shown.retention_remaining_ms, duration)],
          [
            'Held by',
            holder === undefined ? undefined : (
              <>
                {holder.sidecar === undefined
                  ? 'a session of the reservation API, or a sidecar unknown by name'
                  : `the sidecar ${visible(holder.sidecar)}`}
                , since <Time at={holder.since} />
              </>
            ),
          ],
          ['Lock id', holder === undefined ? undefined : <code>{holder.lock_id}</code>],
          [
            'In the application',
            known === undefined ? undefined : (
              <>
                every lock id that begins with <code>{known.lock_ids_begin_with}</code>, up to fencing token{' '}
                {known.fencing_tokens_up_to}
              </>
            ),
          ],
        ]}
      />
    </section>
  )
}

function Nodes({ shown }: { readonly shown: RecordShown }) {
  const differing = shown.nodes.filter(({ differs }) => differs).length
  const isKnown = shown.state !== 'unknown'
  return (
    <section class="panel" aria-labelledby="nodes">
      <h2 id="nodes">On every node</h2>
      <p>
        {!isKnown
          ? 'No state is known that a majority shows, so there is none that a node could differ from.'
          : differing === 0
            ? 'All nodes show the same.'
            : `${differing === 1 ? 'One node differs' : `${differing} nodes differ`} from the majority. One or two are no reason to worry: a node was away for a moment.`}
      </p>
      <ul class="seats">
        {shown.nodes.map((row) => (
          <Node key={row.node} row={row} isKnown={isKnown} />
        ))}
      </ul>
    </section>
  )
}

/** @param isKnown there is a verdict */
function Node({ row, isKnown }: { readonly row: RecordShown['nodes'][number]; readonly isKnown: boolean }) {
  return (
    <li class={row.differs ? 'seat differs' : 'seat'}>
      <h3>{visible(row.node)}</h3>
      <p>
        <Badge word={row.state} /> {row.differs && isKnown ? <Badge word="differs" tone="bad" /> : undefined}
      </p>
      <Facts
        of={[
          ['Token', row.fencing_token],
          ['Accepted', row.accepted_token],
          ['Attempt', row.attempt],
          ['Lease left', said(row.lease_remaining_ms, duration)],
          ['Kept for', said(row.retention_remaining_ms, duration)],
          ['Fingerprint', said(row.fingerprint, (print) => <code>{print.slice(0, 16)}</code>)],
          ['Copied', row.copied ? 'yes: no vote' : undefined],
          ['Why', said(row.detail, visible)],
        ]}
      />
    </li>
  )
}

type OutcomeProps = {
  readonly outcome: NonNullable<RecordShown['outcome']>
  readonly role: 'view' | 'operate'
}

/** Always as text: what is stored came from an application, and may be a page or a script. */
function OutcomeView({ outcome, role }: OutcomeProps) {
  return (
    <section class="panel" aria-labelledby="outcome">
      <h2 id="outcome">The recorded outcome</h2>
      <Facts
        of={[
          ['Kind', outcome.kind === 'tombstone' ? 'executed; the answer was not kept' : outcome.kind],
          ['Status', outcome.status],
          ['Recorded', <Time at={outcome.completed_at} />],
          ['Location', outcome.location === undefined ? undefined : <code>{visible(outcome.location)}</code>],
          ['Body', outcome.body_bytes === undefined ? undefined : `${outcome.body_bytes} bytes`],
        ]}
      />
      {(outcome.headers ?? []).length === 0 ? undefined : (
        <Verbatim
          text={(outcome.headers ?? []).map(([name, value]) => visible(`${name}: ${value}`)).join('\n')}
        />
      )}
      <OutcomeBody outcome={outcome} role={role} />
    </section>
  )
}

function OutcomeBody({ outcome, role }: OutcomeProps) {
  if (outcome.kind === 'tombstone' || outcome.body_bytes === 0) return null
  if (role !== 'operate') return <p class="hint">Its content is shown to the role operate.</p>
  if (outcome.kind === 'result') return <Verbatim text={asText(outcome.result)} />
  return outcome.body_text === undefined ? (
    <>
      <p class="hint">It is no text; in base64:</p>
      <Verbatim text={outcome.body_base64 ?? ''} />
    </>
  ) : (
    <Verbatim text={visible(outcome.body_text)} />
  )
}
