/** Sagas and messages of the saga kit: where each stands, and the decisions about those that do not move by themselves. */

import { useState } from 'preact/hooks'
import type {
  Messages as Letters,
  Overview,
  Saga,
  Sagas,
  SagasInput,
} from '../http/operator/overview-schemas.ts'
import { Decision } from './decision.tsx'
import { Answer, Badge, Facts, Heading, TableOf, Time, useAnswer, Verbatim } from './pieces.tsx'
import { linkTo } from './route.ts'
import { sagaRulings } from './saga-rulings.ts'
import type { Session } from './session.ts'
import { type AnyDecided, asText, duration, toldOf, visible } from './words.ts'

const STATES: readonly SagasInput['state'][] = ['parked', 'compensating', 'running']

export function SagasView({ session }: { readonly session: Session }) {
  const [state, setState] = useState<SagasInput['state']>('parked')
  const [backlog] = useAnswer(async () => (await session.api.get<Overview>('/overview')).sagas, 'backlog')
  const [sagas] = useAnswer(() => session.api.get<Sagas>(`/sagas?state=${state}`), state)
  const open = (event: SubmitEvent) => {
    event.preventDefault()
    const id = String(new FormData(event.currentTarget as HTMLFormElement).get('id') ?? '').trim()
    if (id !== '') location.hash = linkTo({ view: 'saga', id })
  }
  return (
    <>
      <Heading title="Sagas">Sagas and messages</Heading>
      <form class="panel" onSubmit={open} autocomplete="off">
        <label for="saga">Id of a saga</label>
        <input id="saga" name="id" required spellcheck={false} />
        <button type="submit" class="primary">
          Show
        </button>
      </form>
      <section class="panel" aria-labelledby="backlog">
        <h2 id="backlog">Backlog</h2>
        <Answer of={backlog}>
          {(known) =>
            known?.known !== true ? (
              <p>The database has not told its backlog.</p>
            ) : (
              <Facts
                of={[
                  ['Parked', known.parked],
                  ['Turned back now', known.compensating],
                  ['Running', known.running],
                  ['Messages given up', known.dead_letters],
                  ['In the outbox', known.outbox_pending],
                  ['Oldest of them', duration(known.oldest_pending_ms ?? 0)],
                ]}
              />
            )
          }
        </Answer>
      </section>
      <section class="panel" aria-labelledby="open-sagas">
        <h2 id="open-sagas">Sagas that have not ended</h2>
        <label for="state">State</label>
        <select
          id="state"
          value={state}
          onChange={(event) =>
            setState((event.currentTarget as HTMLSelectElement).value as SagasInput['state'])
          }
        >
          {STATES.map((one) => (
            <option key={one} value={one}>
              {one}
            </option>
          ))}
        </select>
        <Answer of={sagas}>{(found) => <SagaTable sagas={found.sagas} state={state} />}</Answer>
      </section>
      <Messages session={session} />
    </>
  )
}

/** As many as the sidecar answers at once. */
const SAGAS_MAX = 200

function SagaTable({ sagas, state }: Sagas & SagasInput) {
  if (sagas.length === 0) return <p role="status">None is {state}.</p>
  return (
    <TableOf
      caption={
        sagas.length < SAGAS_MAX
          ? `${sagas.length} ${state}`
          : `${SAGAS_MAX} ${state}; the backlog says how many there are`
      }
      heads={['Saga', 'Name', 'Moved', 'Why']}
    >
      {sagas.map((one) => (
        <tr key={one.sagaId}>
          <td>
            <a href={linkTo({ view: 'saga', id: one.sagaId })}>{visible(one.sagaId)}</a>
          </td>
          <td>{visible(one.name)}</td>
          <td>
            <Time at={one.updatedAt} />
          </td>
          <td>{visible(one.lastError ?? one.reason ?? '')}</td>
        </tr>
      ))}
    </TableOf>
  )
}

type Message = Letters['dead_letters'][number]

function Messages({ session }: { readonly session: Session }) {
  const path = '/messages/dead-letters'
  const [loaded, again] = useAnswer(() => session.api.get<Letters>(path), 'messages')
  const [told, setTold] = useState('')
  const send = (act: string) => (body: Record<string, unknown>) =>
    session.api.post<AnyDecided>(`${path}/${act}`, body)
  const decided = (letter: Message) => (name: string, what: AnyDecided) => {
    setTold(`Message ${letter.id}. ${toldOf(name, what)}`)
    again()
  }
  return (
    <section class="panel" aria-labelledby="messages">
      <h2 id="messages">Messages that were given up</h2>
      <p role="status">{told}</p>
      <Answer of={loaded}>
        {({ dead_letters: letters }) =>
          letters.length === 0 ? (
            <p>There is none.</p>
          ) : (
            <ul class="entries">
              {letters.map((letter) => (
                <li key={letter.id}>
                  <MessageFacts letter={letter} />
                  {session.operator.role === 'operate' ? (
                    <MessageDecisions letter={letter} send={send} onDecided={decided(letter)} />
                  ) : undefined}
                </li>
              ))}
            </ul>
          )
        }
      </Answer>
    </section>
  )
}

function MessageFacts({ letter }: { readonly letter: Message }) {
  return (
    <>
      <h3>
        {letter.id}: {visible(letter.type)} of {visible(letter.aggregateType)} {visible(letter.aggregateId)}
      </h3>
      <Facts
        of={[
          ['Given up', <Time key="at" at={letter.diedAt} />],
          ['By', letter.source === 'inbox' ? `consumer ${visible(letter.consumerId)}` : 'the outbox'],
          ['Attempts', letter.attempts],
          ['Error', visible(`${letter.errorCode}: ${letter.errorMessage}`)],
        ]}
      />
      {letter.payload === undefined ? undefined : <Verbatim text={asText(letter.payload)} />}
    </>
  )
}

type MessageDecisionsProps = {
  readonly letter: Message
  readonly send: (act: string) => (body: Record<string, unknown>) => Promise<AnyDecided>
  readonly onDecided: (name: string, decided: AnyDecided) => void
}

function MessageDecisions({ letter, send, onDecided }: MessageDecisionsProps) {
  const members = () => ({ ids: [letter.id] })
  return (
    <details>
      <summary>Decide about {letter.id}</summary>
      <h4>The cause is gone</h4>
      <Decision name="Replay it" members={members} send={send('replay')} onDecided={onDecided} />
      <h4>It shall never be handled</h4>
      <Decision name="Discard it" members={members} send={send('discard')} onDecided={onDecided} />
    </details>
  )
}

export function SagaView({ id, session }: { readonly id: string; readonly session: Session }) {
  const path = `/sagas/${encodeURIComponent(id)}`
  const [loaded, again] = useAnswer(() => session.api.get<Saga>(path), id)
  const send = (act: string) => (body: Record<string, unknown>) =>
    session.api.post<AnyDecided>(`${path}/${act}`, body)
  return (
    <>
      <Heading title="Saga">
        Saga <code>{visible(id)}</code>
      </Heading>
      <p>
        <button type="button" onClick={again}>
          Look again
        </button>
      </p>
      <Answer of={loaded}>
        {(saga) => (
          <>
            <SagaFacts saga={saga} />
            {session.operator.role !== 'operate' ? undefined : (
              <section class="panel" aria-labelledby="decide-saga">
                <h2 id="decide-saga">Decide</h2>
                <h3>The cause is gone</h3>
                <Decision
                  name="Let it go on"
                  because={sagaRulings(saga).retry}
                  send={send('retry')}
                  onDecided={again}
                />
                <h3>It shall not go on</h3>
                <Decision
                  name="Turn it back"
                  because={sagaRulings(saga).compensate}
                  send={send('compensate')}
                  onDecided={again}
                />
              </section>
            )}
          </>
        )}
      </Answer>
    </>
  )
}

function SagaFacts({ saga }: { readonly saga: Saga }) {
  return (
    <section class="panel" aria-labelledby="saga-state">
      <h2 id="saga-state">
        {visible(saga.name)}: <Badge word={saga.status} />
      </h2>
      <Facts
        of={[
          ['Why', saga.reason === null ? undefined : visible(saga.reason)],
          ['Attempts', saga.attempts],
          ['Last error', saga.lastError === null ? undefined : visible(saga.lastError)],
          ['Next attempt', saga.nextAttemptAt === null ? undefined : <Time at={saga.nextAttemptAt} />],
          ['Trace', saga.traceId === null ? undefined : <code>{saga.traceId}</code>],
        ]}
      />
      <TableOf caption="Steps" heads={['Step', 'State', 'Attempts', 'Last error', 'Result']}>
        {saga.steps.map((step) => (
          <tr key={step.name}>
            <td>{visible(step.name)}</td>
            <td>
              <Badge word={step.status} />
            </td>
            <td>{step.attempts}</td>
            <td>{visible(step.lastError ?? '')}</td>
            <td>{step.result === undefined || step.result === null ? '' : asText(step.result)}</td>
          </tr>
        ))}
      </TableOf>
      {saga.input === undefined ? undefined : (
        <>
          <h3>What it was given</h3>
          <Verbatim text={asText(saga.input)} />
        </>
      )}
    </section>
  )
}
