/** Questions that the sweeper could not answer (dead letters of claims): look at the record, then decide. */

import { useState } from 'preact/hooks'
import type { Entry } from '../http/operator/schemas.ts'
import type { Session } from './api.ts'
import { Decision } from './decision.tsx'
import { Answer, Pages, Time, usePages } from './pieces.tsx'
import { type AnyDecided, linkTo, toldOf } from './words.ts'

/** Of a page. */
const QUESTIONS = 200

export function QuestionsView({ session }: { readonly session: Session }) {
  const { loaded, again, newest, older } = usePages(session, '/dead-letters', QUESTIONS)
  const [told, setTold] = useState('')
  const decided = (name: string, what: AnyDecided) => {
    setTold(toldOf(name, what))
    again()
  }
  return (
    <section class="panel" aria-labelledby="questions">
      <h2 id="questions">Questions that wait for a decision</h2>
      <p role="status">{told}</p>
      <Answer of={loaded}>
        {({ entries }) =>
          entries.length === 0 ? (
            <p role="status">There is none.</p>
          ) : (
            <ul class="entries">
              {entries.map((entry) => (
                <li key={entry.id}>
                  <Question entry={entry} session={session} onDecided={decided} />
                </li>
              ))}
            </ul>
          )
        }
      </Answer>
      <Pages newest={newest} older={older} />
    </section>
  )
}

type QuestionProps = {
  readonly entry: Entry
  readonly session: Session
  readonly onDecided: (name: string, decided: AnyDecided) => void
}

function Question({ entry, session, onDecided }: QuestionProps) {
  const { record = '' } = entry
  const send = (act: string) => (body: Record<string, unknown>) =>
    session.api.post<AnyDecided>(`/dead-letters/${encodeURIComponent(entry.id)}/${act}`, body)
  return (
    <>
      <p>
        <Time at={entry.at} />:{' '}
        {entry.kind === 'orphan' ? 'lapsed without an outcome' : 'lost its lease at work'}, attempt{' '}
        {entry.attempt ?? '1'} of <a href={linkTo({ view: 'record', record })}>{record.slice(-64, -48)}</a>
      </p>
      {session.operator.role !== 'operate' ? undefined : (
        <details>
          <summary>Decide</summary>
          <h3>It was not executed</h3>
          <Decision name="Requeue it" send={send('requeue')} onDecided={onDecided} />
          <h3>It was executed</h3>
          <Decision
            name="Discard it as completed"
            members={() => ({ completed: true })}
            send={send('discard')}
            onDecided={onDecided}
          />
          <h3>Nobody needs to know</h3>
          <Decision name="Discard the question" send={send('discard')} onDecided={onDecided} />
        </details>
      )}
    </>
  )
}
