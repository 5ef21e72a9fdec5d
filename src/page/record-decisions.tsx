/** What can be decided about a record, each with the form that decides it. */

import { useState } from 'preact/hooks'
import type { Decided, Shown } from '../http/operator/schemas.ts'
import type { Session } from './api.ts'
import { Decision } from './decision.tsx'
import { Button } from './pieces.tsx'
import { headersIn } from './words.ts'

type Kind = 'end' | 'complete' | 'forget' | 'ask'

/** In the order of docs/operations/one-key.md: what the operator knows, and the decision for it. */
const KINDS: readonly { readonly kind: Kind; readonly known: string; readonly name: string }[] = [
  { kind: 'end', known: 'The attempt hangs and will not end', name: 'End the claim' },
  { kind: 'complete', known: 'It was executed', name: 'Complete it by hand' },
  { kind: 'forget', known: 'It was not executed', name: 'Forget it' },
  { kind: 'ask', known: 'The application can say', name: 'Ask the application' },
]

export type RecordDecisionsProps = {
  readonly shown: Shown
  readonly session: Session
  /** What the record is by now, where it is no longer what is shown. */
  readonly changed: string | undefined
  /** A decision was opened, or its form is filled in: nothing that is shown may change. */
  readonly onUse: () => void
  readonly onLeave: () => void
  readonly onDecided: () => void
  readonly onShowChange: () => void
}

export function RecordDecisions({ shown, session, changed, ...on }: RecordDecisionsProps) {
  const [open, setOpen] = useState<Kind>()
  const { role } = session.operator
  const toggle = (kind: Kind | undefined) => {
    setOpen(kind)
    if (role !== 'operate' || kind === undefined) on.onLeave()
    else on.onUse()
  }
  // The preview, too, is about what is shown: a record that has moved on since refuses it.
  const token = shown.fencing_token === undefined ? {} : { fencing_token: shown.fencing_token }
  const send = (kind: Kind) => (body: Record<string, unknown>) =>
    session.api.post<Decided>(`/records/${encodeURIComponent(shown.record)}/${kind}`, { ...token, ...body })
  return (
    <section class="panel" aria-labelledby="decide">
      <h2 id="decide">Decide</h2>
      {role === 'operate' ? (
        <p>What do you know? Nothing changes before you have seen a preview.</p>
      ) : (
        <p>Your role is view: ask somebody with the role operate. This is what could be decided:</p>
      )}
      {KINDS.map(({ kind, known, name }) => {
        const ruling = shown.decisions[kind]
        const isOpen = open === kind
        return (
          <div key={kind} class="choice">
            <h3>
              <button
                type="button"
                class="fold"
                aria-expanded={isOpen}
                onClick={() => toggle(isOpen ? undefined : kind)}
              >
                {known}
                {ruling?.possible === true ? '' : ' (not now)'}
              </button>
            </h3>
            {!isOpen ? undefined : role === 'operate' ? (
              <div onInput={on.onUse}>
                <Decision
                  name={name}
                  because={
                    ruling?.possible === true ? undefined : (ruling?.because ?? 'It is not possible now.')
                  }
                  send={send(kind)}
                  onDecided={on.onDecided}
                  {...(kind === 'complete' ? { members: givenIn } : {})}
                >
                  {kind === 'complete' ? <AnswerFields /> : undefined}
                </Decision>
                <Changed changed={changed} onShow={on.onShowChange} />
              </div>
            ) : (
              <ul>
                {(ruling?.effects ?? [ruling?.because ?? 'It is not possible now.']).map((effect) => (
                  <li key={effect}>{effect}</li>
                ))}
              </ul>
            )}
          </div>
        )
      })}
    </section>
  )
}

/** Below the form, so that nothing in it moves. */
function Changed({ changed, onShow }: { readonly changed: string | undefined; readonly onShow: () => void }) {
  return (
    <div role="status">
      {changed === undefined ? undefined : (
        <p class="changed">
          The record has changed since you opened this: it is {changed} now. Look at it before you decide.{' '}
          <Button onClick={onShow}>Show it as it is</Button>
        </p>
      )}
    </div>
  )
}

/** The answer that retries of the client get, or that it is lost. */
function AnswerFields() {
  const [kind, setKind] = useState('answer')
  const choose = (event: Event) => setKind((event.currentTarget as HTMLInputElement).value)
  return (
    <fieldset>
      <legend>Retries of the client get</legend>
      {(
        [
          ['answer', 'this answer'],
          ['not_kept', '410: it was executed, and its answer is lost'],
          ['result', 'this result of a reservation'],
        ] as const
      ).map(([value, label]) => (
        <label key={value} class="tick">
          <input type="radio" name="given" value={value} checked={kind === value} onChange={choose} /> {label}
        </label>
      ))}
      {kind === 'answer' ? (
        <>
          <label for="status">Status</label>
          <input id="status" name="status" type="number" min={200} max={599} defaultValue="200" required />
          <label for="headers">Headers, one a line</label>
          <textarea
            id="headers"
            name="headers"
            rows={2}
            spellcheck={false}
            defaultValue="content-type: application/json"
          />
          <label for="body">Body</label>
          <textarea id="body" name="body" rows={5} spellcheck={false} />
        </>
      ) : undefined}
      {kind === 'result' ? (
        <>
          <label for="result">Result, as JSON</label>
          <textarea id="result" name="result" rows={4} required spellcheck={false} />
        </>
      ) : undefined}
    </fieldset>
  )
}

function givenIn(form: FormData): Record<string, unknown> | string {
  const text = (name: string) => String(form.get(name) ?? '')
  if (text('given') === 'not_kept') return { not_kept: true }
  if (text('given') === 'result') {
    try {
      return { result: JSON.parse(text('result')) }
    } catch {
      return 'The result is no JSON. A text stands in quotes: "paid".'
    }
  }
  const headers = headersIn(text('headers'))
  if (typeof headers === 'string') return headers
  return { answer: { status: Number(text('status')), headers, body: text('body') } }
}
