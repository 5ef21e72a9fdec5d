/**
 * Sagas and dead letters over HTTP, to mount in an application or to serve by itself: JSON for tools under `/v1/`, and a page for people.
 *
 * Owns the answers' form and headers: none is kept, framed, or runs a script. `calls.ts` says what there is to ask, the application who
 * asks. It takes the requests of `node:http`, so it is at home in every framework that has them.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { SagaKit } from '../kit.ts'
import { sagaStatuses } from '../saga-instances.ts'
import { explained } from '../setup-errors.ts'
import { answerOf, type Call, callAt, calls, decoded, type Input, openApi } from './calls.ts'
import { type Operator, problems, Refused, requireOwnPage } from './operators.ts'
import {
  decidedPage,
  type Form,
  type Overview,
  overviewPage,
  type Place,
  previewPage,
  problemPage,
  sagaPage,
} from './page.ts'
import { style } from './style.ts'

export type SagaHandlerOptions = {
  /** Who sends this request, as the application knows them; undefined where it does not. */
  readonly operator: (request: IncomingMessage) => Operator | undefined | Promise<Operator | undefined>
  /** Where it is mounted, such as `/operations/sagas`. Default: at the root. */
  readonly path?: string
  /** Where docs/operations/runbooks.md is published. */
  readonly runbookUrl?: string
}

/** Parsed by a framework before, where it does that. */
type Request = IncomingMessage & { readonly originalUrl?: string; readonly body?: unknown }

type Answer = {
  readonly status: number
  readonly type: string
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

const bodyBytesMax = 64 * 1024

const headersOfAll = {
  'Cache-Control': 'no-store',
  'X-Content-Type-Options': 'nosniff',
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Content-Security-Policy':
    "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
} as const

const json = (body: unknown): Answer => ({
  status: 200,
  type: 'application/json',
  body: JSON.stringify(body),
})
const page = (body: string): Answer => ({ status: 200, type: 'text/html; charset=utf-8', body })
const redirect = (Location: string): Answer => ({
  status: 303,
  type: 'text/plain',
  body: '',
  headers: { Location },
})

export function sagaHandler(
  kit: SagaKit,
  { operator, path = '', runbookUrl = 'https://fencepost.dev/runbooks' }: SagaHandlerOptions,
): (request: Request, response: ServerResponse) => Promise<void> {
  const base = path.replace(/\/+$/, '')
  return async (request, response) => {
    const [, at = '', query] = /^([^?]*)\??(.*)$/s.exec(request.originalUrl ?? request.url ?? '/') ?? []
    const inside = at.startsWith(base) ? at.slice(base.length) : undefined
    const asked = { request, query: new URLSearchParams(query), inside, place: { path: base, runbookUrl } }
    const { status, type, body, headers } = await answerTo(kit, operator, asked)
    response.writeHead(status, { ...headersOfAll, 'Content-Type': type, ...headers }).end(body)
  }
}

type Asked = {
  readonly request: Request
  readonly query: URLSearchParams
  /** The path below the place where it is mounted. */
  readonly inside: string | undefined
  readonly place: Omit<Place, 'by'>
}

async function answerTo(
  kit: SagaKit,
  operator: SagaHandlerOptions['operator'],
  asked: Asked,
): Promise<Answer> {
  let by: Operator | undefined
  try {
    by = await operator(asked.request)
    if (by === undefined)
      throw new Refused('token-required', 'Send your token, and nothing else is answered.')
    return await answerFor(kit, by, asked)
  } catch (error) {
    const refused = error instanceof Refused ? error : unavailable(kit, error)
    const answer =
      isCall(asked) || by === undefined ? problem(refused) : refusedPage({ ...asked.place, by }, refused)
    return refused.status === 401 ? { ...answer, headers: { 'WWW-Authenticate': CHALLENGE } } : answer
  }
}

/** A browser asks its reader for a name and a password, which is the token. */
const CHALLENGE = 'Basic realm="fencepost sagas", charset="UTF-8"'

const isCall = ({ inside = '' }: Asked) => inside.startsWith('/v1/') || inside === '/openapi.json'

/** What PostgreSQL says may quote what it was sent: it is told to the kit's events, and to nobody else. */
function unavailable(kit: SagaKit, error: unknown): Refused {
  kit.emit({ kind: 'saga_error', error: explained(kit, error) })
  return new Refused(
    'database-unavailable',
    'The database of the sagas did not answer as it should; it is not known whether anything changed. The events of the kit say why.',
  )
}

function problem(refused: Refused): Answer {
  const { status, document } = refused
  const retry = status === 503 ? { headers: { 'Retry-After': '1' } } : {}
  return { status, type: 'application/problem+json', body: JSON.stringify(document), ...retry }
}

function refusedPage(place: Place, { status, code, message }: Refused): Answer {
  return { ...page(problemPage(place, problems[code].title, message)), status }
}

async function answerFor(kit: SagaKit, by: Operator, asked: Asked): Promise<Answer> {
  const { request, query, inside, place } = asked
  const method = request.method === 'HEAD' ? 'GET' : (request.method ?? 'GET')
  const found = callAt(method, inside ?? '')
  if (method === 'POST') requireOwnPage(request)
  if (found !== undefined) {
    const input = method === 'POST' ? await bodyOf(request) : Object.fromEntries(query)
    return json(await answerOf(found.call, kit, { id: found.id, input, by }))
  }
  if (method === 'POST' && inside === '/decide') return decided(kit, { ...place, by }, await bodyOf(request))
  if (method === 'GET') return got(kit, { ...place, by }, inside, query)
  throw new Refused('call-unknown', `There is no call ${method} on this path; see openapi.json.`)
}

async function got(
  kit: SagaKit,
  place: Place,
  inside: string | undefined,
  query: URLSearchParams,
): Promise<Answer> {
  const { path, by } = place
  const ask = async <T>(call: Call, input: Input = {}, id = ''): Promise<T> =>
    JSON.parse(JSON.stringify(await answerOf(call, kit, { id, input, by })))
  switch (inside) {
    case '':
      return redirect(`${path}/`)
    case '/style.css':
      return { ...page(style), type: 'text/css; charset=utf-8' }
    case '/openapi.json':
      return json(openApi(path))
    case '/sagas':
      return redirect(`${path}/sagas/${encodeURIComponent(query.get('id')?.trim() ?? '')}`)
    case '/': {
      const wished = query.get('status') ?? ''
      const status = sagaStatuses.find((one) => one === wished) ?? 'parked'
      const [backlog, { sagas }, { dead_letters: deadLetters }, { decisions }] = await Promise.all([
        ask<Overview['backlog']>(calls.showBacklog),
        ask<Pick<Overview, 'sagas'>>(calls.listSagas, { status }),
        ask<{ readonly dead_letters: Overview['deadLetters'] }>(calls.listDeadLetters),
        ask<Pick<Overview, 'decisions'>>(calls.listDecisions, { limit: '50' }),
      ])
      return page(overviewPage(place, { backlog, status, sagas, deadLetters, decisions }))
    }
  }
  const [, id] = /^\/sagas\/([^/]+)$/.exec(inside ?? '') ?? []
  if (id !== undefined) return page(sagaPage(place, await ask(calls.showSaga, {}, decoded(id))))
  throw new Refused('call-unknown', 'There is nothing on this path.')
}

const callOfAct = {
  retry: calls.retrySaga,
  compensate: calls.compensateSaga,
  replay: calls.replayDeadLetters,
  discard: calls.discardDeadLetters,
} as const

/** A form of the page: the first shows what would happen, the second, which comes from there, decides. */
async function decided(
  kit: SagaKit,
  place: Place,
  { act, subject, reason, confirmed }: Input,
): Promise<Answer> {
  if (typeof act !== 'string' || !Object.hasOwn(callOfAct, act) || typeof subject !== 'string')
    throw new Refused('request-invalid', 'The form is none of this page.')
  const form = { act: act as Form['act'], subject, reason: String(reason ?? '').trim() }
  const call = callOfAct[form.act]
  const ofMessages = form.act === 'replay' || form.act === 'discard'
  const input = {
    reason: form.reason,
    ...(ofMessages ? { ids: [Number(subject)] } : {}),
    ...(confirmed === 'yes' ? {} : { dry_run: true }),
  }
  const answer = await answerOf(call, kit, { id: subject, input, by: place.by })
  if (confirmed !== 'yes') return page(previewPage(place, form))
  const { messages = 1 } = answer as { readonly messages?: number }
  return page(decidedPage(place, form, messages))
}

/** JSON, or a form of the page. */
async function bodyOf(request: Request): Promise<Input> {
  if (typeof request.body === 'object' && request.body !== null) return request.body as Input
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > bodyBytesMax) throw new Refused('body-too-large', `A body has at most ${bodyBytesMax} bytes.`)
    chunks.push(chunk)
  }
  const text = Buffer.concat(chunks).toString('utf8')
  if (/^application\/x-www-form-urlencoded\b/i.test(request.headers['content-type'] ?? ''))
    return Object.fromEntries(new URLSearchParams(text))
  try {
    const body: unknown = JSON.parse(text === '' ? '{}' : text)
    if (typeof body === 'object' && body !== null && !Array.isArray(body)) return body as Input
  } catch {
    // Not JSON is as little an object as other JSON is.
  }
  throw new Refused('request-invalid', 'The body is no JSON object.')
}
