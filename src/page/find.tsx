/** Find a record by whatever support has; and the lists, for who has nothing but "it hangs". */

import { useId, useRef, useState } from 'preact/hooks'
import type { Entry, Found, RecentDecisions } from '../http/operator/schemas.ts'
import type { Api, Session } from './api.ts'
import { Decision } from './decision.tsx'
import { NONE, type Oldest, oldestOf, type Result, ResultView } from './find-results.tsx'
import { Answer, Button, Heading, LookAgain, Pages, TableOf, Time, useAnswer, usePages } from './pieces.tsx'
import { type AnyDecided, linkTo, reportOf, visible } from './words.ts'

const WAYS = [
  ['key', 'Method, path and idempotency key'],
  ['reference', 'Something from a log line or an error'],
  ['reserved_value', 'A reserved value'],
  ['reservation_id', 'The id of a reservation'],
  ['entity', 'A locked entity'],
  ['request', 'The whole request, as JSON'],
] as const
type Way = (typeof WAYS)[number][0]

/** Steps of a search that walks over the keys of the nodes; each is at most 50,000 keys. */
const STEPS_MAX = 1_000

/** Lists that are pages of the audit log or of the sidecar's memory, and no search. */
type Beside = 'questions' | 'decisions'

export function FindView({ session }: { readonly session: Session }) {
  const { api } = session
  const [result, setResult] = useState<Result>({ kind: 'none' })
  const [beside, setBeside] = useState<Beside>()
  const latest = useRef(0)
  const begin = () => {
    latest.current += 1
    return latest.current
  }
  const show = (list: Beside) => {
    begin()
    setResult({ kind: 'none' })
    setBeside(list)
  }
  const look = async (what: string, page: (cursor?: string) => Promise<Found>, isSearch: boolean) => {
    const mine = begin()
    const isMine = () => mine === latest.current
    setBeside(undefined)
    setResult({ kind: 'looking', what, found: NONE, steps: 0 })
    try {
      const found = await walked(page, isSearch, isMine, (sofar, steps) =>
        setResult({ kind: 'looking', what, found: sofar, steps }),
      )
      if (!isMine()) return
      const [only, ...others] = found.records
      if (isSearch && only !== undefined && others.length === 0)
        location.hash = linkTo({ view: 'record', record: only.record })
      else setResult({ kind: 'found', what, found })
    } catch (error) {
      if (isMine()) setResult({ kind: 'failed', error })
    }
  }
  const list = (state: 'live' | 'expired') =>
    look(
      `${state}, oldest first`,
      (cursor) => api.get(`/records?state=${state}${cursor ? `&cursor=${cursor}` : ''}`),
      false,
    )
  return (
    <>
      <Heading title="Find">Find a record</Heading>
      <FindForm
        onFind={(body) => void look('found', (cursor) => find(api, body, cursor), true)}
        onFault={(error) => setResult({ kind: 'failed', error })}
      />
      <section class="panel" aria-labelledby="lists">
        <h2 id="lists">Nothing but “it hangs”?</h2>
        <p class="buttons">
          <Button onClick={() => void list('live')}>Live claims, oldest first</Button>
          <Button onClick={() => void list('expired')}>Expired claims, oldest first</Button>
          <Button onClick={() => show('questions')}>Questions that wait</Button>
          <Button onClick={() => show('decisions')}>What was just answered</Button>
        </p>
      </section>
      {beside === 'questions' ? <QuestionsView session={session} /> : undefined}
      {beside === 'decisions' ? <DecisionsView session={session} /> : undefined}
      {beside === undefined ? <ResultView result={result} onStop={() => void stop()} /> : undefined}
    </>
  )

  function stop() {
    begin()
    setResult((now) => (now.kind === 'looking' ? { ...now, kind: 'stopped' } : now))
  }
}

const find = (api: Api, body: Record<string, unknown>, cursor: string | undefined): Promise<Found> =>
  api.post('/records/find', cursor === undefined ? body : { ...body, cursor })

/** Page after page: a search until something is found, a list until its end. */
async function walked(
  page: (cursor?: string) => Promise<Found>,
  isSearch: boolean,
  isWanted: () => boolean,
  onStep: (found: Oldest, steps: number) => void,
): Promise<Oldest> {
  let oldest = NONE
  let cursor: string | undefined
  for (let steps = 1; steps <= STEPS_MAX; steps += 1) {
    const found: Found = await page(cursor)
    oldest = oldestOf(oldest, found)
    cursor = found.cursor
    if (cursor === undefined || !isWanted() || (isSearch && oldest.records.length > 0)) return oldest
    onStep(oldest, steps)
  }
  throw new Error(`The search is not at its end after ${STEPS_MAX} steps. Use: fencepost records list.`)
}

type FindFormProps = {
  readonly onFind: (body: Record<string, unknown>) => void
  readonly onFault: (error: unknown) => void
}

function FindForm({ onFind, onFault }: FindFormProps) {
  const [way, setWay] = useState<Way>('key')
  const submit = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    try {
      onFind(bodyOf(way, (name) => String(form.get(name) ?? '').trim()))
    } catch {
      onFault(new Error('The request is no JSON: {"method":"POST","path":"/…","headers":{…},"body":"…"}'))
    }
  }
  return (
    <form class="panel" onSubmit={submit} autocomplete="off">
      <label for="way">What do you have?</label>
      <select
        id="way"
        value={way}
        onChange={(event) => setWay((event.currentTarget as HTMLSelectElement).value as Way)}
      >
        {WAYS.map(([value, name]) => (
          <option key={value} value={value}>
            {name}
          </option>
        ))}
      </select>
      <Fields key={way} way={way} />
      <details>
        <summary>Another tenant or API version</summary>
        <Field name="tenant" label="Tenant" hint="Empty: the one that is configured." />
        <Field name="api_version" label="API version" hint="Empty: the one that is configured." />
      </details>
      <button type="submit" class="primary">
        Find
      </button>
    </form>
  )
}

function Fields({ way }: { readonly way: Way }) {
  switch (way) {
    case 'key':
      return (
        <>
          <div class="row">
            <Field name="method" label="Method" value="POST" required pattern="[A-Z]{1,32}" />
            <Field name="path" label="Path" required pattern="/[^?#\s]*" placeholder="/payments" />
            <Field name="key" label="Idempotency key" required />
          </div>
          <details>
            <summary>The requests are not anonymous</summary>
            <p class="hint">One of the three says whose request it was.</p>
            <Field
              name="client"
              label="Client"
              hint="What names it in the header or the claim that the route identifies clients by."
            />
            <Field
              name="principal"
              label="Principal"
              hint="Its hash, as docs/reference/fingerprint.md writes it."
            />
            <Field
              name="authorization"
              label="The client’s Authorization line"
              hint="It is only hashed, and not kept."
              secret
            />
          </details>
        </>
      )
    case 'request':
      return (
        <>
          <label for="request">Request</label>
          <textarea id="request" name="request" rows={6} required spellcheck={false} />
          <p class="hint">In the form of POST /v1/fingerprint, for routes that key by content.</p>
        </>
      )
    case 'reference':
      return (
        <Field
          name="value"
          label="Reference"
          required
          hint="key_hash (16 or 64 digits), lock_id, the instance of a problem document (urn:uuid:…), or a record key."
        />
      )
    case 'reserved_value':
      return <Field name="value" label="Reserved value" required placeholder="payment:order-4711" />
    case 'reservation_id':
      return <Field name="value" label="Reservation id" required placeholder="r1_…" />
    case 'entity':
      return <Field name="value" label="Entity" required placeholder="account-42" />
  }
}

type FieldProps = {
  readonly name: string
  readonly label: string
  readonly hint?: string
  readonly value?: string
  readonly required?: boolean
  readonly pattern?: string
  readonly placeholder?: string
  readonly secret?: boolean
}

function Field({ name, label, hint, secret, value, ...input }: FieldProps) {
  const id = useId()
  const whole = {
    id,
    name,
    spellcheck: false,
    ...(value === undefined ? {} : { defaultValue: value }),
    ...(hint === undefined ? {} : { 'aria-describedby': `${id}-hint` }),
    ...input,
  }
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {secret === true ? <input type="password" {...whole} /> : <input type="text" {...whole} />}
      {hint === undefined ? undefined : (
        <p id={`${id}-hint`} class="hint">
          {hint}
        </p>
      )}
    </div>
  )
}

/** @throws SyntaxError where the request is no JSON */
function bodyOf(way: Way, text: (name: string) => string): Record<string, unknown> {
  const given = (name: string, as = name) => (text(name) === '' ? {} : { [as]: text(name) })
  const scope = { ...given('tenant'), ...given('api_version') }
  switch (way) {
    case 'key': {
      const whose = { ...given('client'), ...given('principal'), ...given('authorization') }
      const key = { method: text('method'), path: text('path'), idempotency_key: text('key'), ...whose }
      return { ...scope, key }
    }
    case 'request':
      return { ...scope, request: JSON.parse(text('request')) }
    default:
      return { ...scope, [way]: text('value') }
  }
}

/** The newest decisions of the sidecar that serves the page: what it answered lately, and about which record. */
function DecisionsView({ session }: { readonly session: Session }) {
  const [loaded, again] = useAnswer(() => session.api.get<RecentDecisions>('/decisions'), 'decisions')
  return (
    <section class="panel" aria-labelledby="decisions">
      <h2 id="decisions">What this sidecar just answered</h2>
      <LookAgain onClick={again} />
      <Answer of={loaded}>
        {({ decisions, sampled }) => (
          <>
            <p class="hint">
              Other sidecars have their own.{' '}
              {sampled ? 'Of requests that went well only a sample is kept; refusals are all here.' : ''}
            </p>
            {decisions.length === 0 ? (
              <p role="status">There is none.</p>
            ) : (
              <Decisions decisions={decisions} />
            )}
          </>
        )}
      </Answer>
    </section>
  )
}

function Decisions({ decisions }: Pick<RecentDecisions, 'decisions'>) {
  return (
    <TableOf
      caption={`The newest ${decisions.length}, newest first`}
      heads={['When', 'Decision', 'Status', 'Route', 'Tenant', 'Record']}
    >
      {decisions.map((one) => (
        <tr key={one.instance ?? `${one.at} ${one.lock_id}`}>
          <td>
            <Time at={one.at} />
          </td>
          <td>{one.decision.replaceAll('_', ' ')}</td>
          <td>{one.status}</td>
          <td>{visible(one.route ?? '')}</td>
          <td>{visible(one.tenant ?? '')}</td>
          <td>
            {one.record === undefined ? (
              ''
            ) : (
              <a href={linkTo({ view: 'record', record: one.record })}>
                <code>{one.record.slice(-64, -48)}</code>
              </a>
            )}
          </td>
        </tr>
      ))}
    </TableOf>
  )
}

/** Questions that the sweeper could not answer, of a page. */
const QUESTIONS = 200

function QuestionsView({ session }: { readonly session: Session }) {
  const { loaded, again, newest, older } = usePages(session, '/dead-letters', QUESTIONS)
  const [told, setTold] = useState('')
  const decided = (name: string, what: AnyDecided) => {
    setTold(reportOf(name, what))
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
        {entry.kind === 'orphan' ? 'expired without an outcome' : 'lost its lease at work'}, attempt{' '}
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
