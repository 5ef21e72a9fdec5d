/** Find a record by whatever support has; and the lists, for who has nothing but "it hangs". */

import { useId, useRef, useState } from 'preact/hooks'
import type { Api } from './api.ts'
import { Badge, Failure, Heading, TableOf } from './pieces.tsx'
import { QuestionsView } from './questions.tsx'
import { linkTo } from './route.ts'
import type { Session } from './session.ts'
import type { Found, RecordSummary } from './shapes.ts'
import { duration, visible } from './words.ts'

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

type Result =
  | { readonly kind: 'none' }
  | { readonly kind: 'looking'; readonly records: readonly RecordSummary[]; readonly steps: number }
  | { readonly kind: 'found'; readonly what: string; readonly records: readonly RecordSummary[] }
  | { readonly kind: 'failed'; readonly error: unknown }

export function FindView({ session }: { readonly session: Session }) {
  const { api } = session
  const [result, setResult] = useState<Result>({ kind: 'none' })
  const [questions, setQuestions] = useState(false)
  const latest = useRef(0)
  const look = async (what: string, page: (cursor?: string) => Promise<Found>, opens: boolean) => {
    latest.current += 1
    const mine = latest.current
    const isMine = () => mine === latest.current
    setQuestions(false)
    setResult({ kind: 'looking', records: [], steps: 0 })
    try {
      const records = await allPages(page, isMine, (found, steps) =>
        setResult({ kind: 'looking', records: found, steps }),
      )
      if (!isMine()) return
      const [only] = records
      if (opens && records.length === 1 && only !== undefined)
        location.hash = linkTo({ view: 'record', record: only.record })
      else setResult({ kind: 'found', what, records })
    } catch (error) {
      if (isMine()) setResult({ kind: 'failed', error })
    }
  }
  const list = (state: 'live' | 'lapsed') =>
    look(state, (cursor) => api.get(`/records?state=${state}${cursor ? `&cursor=${cursor}` : ''}`), false)
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
          <button type="button" onClick={() => void list('live')}>
            Live claims, oldest first
          </button>
          <button type="button" onClick={() => void list('lapsed')}>
            Lapsed claims
          </button>
          <button
            type="button"
            onClick={() => {
              latest.current += 1
              setResult({ kind: 'none' })
              setQuestions(true)
            }}
          >
            Questions that wait
          </button>
        </p>
      </section>
      {questions ? <QuestionsView session={session} /> : <ResultView result={result} />}
    </>
  )
}

const find = (api: Api, body: Record<string, unknown>, cursor: string | undefined): Promise<Found> =>
  api.post('/records/find', cursor === undefined ? body : { ...body, cursor })

async function allPages(
  page: (cursor?: string) => Promise<Found>,
  isWanted: () => boolean,
  onStep: (records: readonly RecordSummary[], steps: number) => void,
): Promise<readonly RecordSummary[]> {
  const records = new Map<string, RecordSummary>()
  let cursor: string | undefined
  for (let steps = 1; steps <= STEPS_MAX; steps += 1) {
    const found: Found = await page(cursor)
    for (const one of found.records) records.set(one.record, one)
    cursor = found.cursor
    if (cursor === undefined || !isWanted()) return [...records.values()]
    onStep([...records.values()], steps)
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
            <Field name="principal" label="Principal" hint="Its hash, as in a log line." />
            <Field
              name="authorization"
              label="or the client’s Authorization line"
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
      const whose = { ...given('principal'), ...given('authorization') }
      const key = { method: text('method'), path: text('path'), idempotency_key: text('key'), ...whose }
      return { ...scope, key }
    }
    case 'request':
      return { ...scope, request: JSON.parse(text('request')) }
    default:
      return { ...scope, [way]: text('value') }
  }
}

function ResultView({ result }: { readonly result: Result }) {
  switch (result.kind) {
    case 'none':
      return <div role="status" />
    case 'failed':
      return <Failure error={result.error} />
    case 'looking':
      return (
        <div role="status">
          Looking … {result.steps === 0 ? '' : `${result.records.length} found after ${result.steps} steps.`}
        </div>
      )
    case 'found':
      return result.records.length === 0 ? (
        <p role="status">There is none.</p>
      ) : (
        <Records records={result.records} what={result.what} />
      )
  }
}

function Records({ records, what }: { readonly records: readonly RecordSummary[]; readonly what: string }) {
  return (
    <TableOf
      caption={`${records.length} ${records.length === 1 ? 'record' : 'records'}, ${what}`}
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
