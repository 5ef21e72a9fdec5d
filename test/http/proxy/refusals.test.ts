/**
 * A refusal that asks for another form of the same request is no outcome: the client that complies, under the same key, is executed.
 */
import { request } from 'undici'
import { expect, test } from 'vitest'
import { type Respond, startApplication } from '../../support/application.ts'
import { route, startProxy } from '../../support/proxy.ts'

const told = (response: Response) => `${response.status} ${response.headers.get('idempotency-status')}`

type Lines = Readonly<Record<string, string>>

/** Refuses what lacks these lines. */
function refusing(status: number, headers: Lines, wanted: Lines, body = 'refused'): Respond {
  return (request, response) => {
    const complies = Object.entries(wanted).every(([name, value]) => request.values(name).includes(value))
    if (complies) response.writeHead(201).end('done')
    else response.writeHead(status, headers).end(body)
  }
}

// Bug: Kiota, oauth4webapi and clients of x402 failed for good through the sidecar, each retry with the refusal of the first attempt.
test.each<[client: string, status: number, refusal: Lines, wanted: Lines, body?: string]>([
  ['a login', 401, {}, { cookie: 'session=1' }],
  ['a token for this key', 401, { 'WWW-Authenticate': 'DPoP', 'DPoP-Nonce': 'n' }, { dpop: 'n' }],
  ['the nonce of an authorization server', 400, { 'DPoP-Nonce': 'n' }, { dpop: 'n' }],
  ['a payment', 402, { 'Payment-Required': 'e30=' }, { 'payment-signature': 's' }],
  ['a payment, asked for in the body', 402, {}, { 'x-payment': 's' }, '{"x402Version":1}'],
  ['a lightning payment', 402, { 'WWW-Authenticate': 'L402 macaroon="m"' }, { 'x-payment': 's' }],
  ['another representation', 406, {}, { accept: 'text/plain' }],
  ['a login at a proxy behind', 407, {}, { 'x-proxy': '1' }],
  ['a length', 411, {}, { 'x-length': '1' }],
  ['conditions that hold', 412, {}, { 'if-match': '"2"' }],
  ['another coding', 415, { 'Accept-Encoding': 'identity' }, { 'x-plain': '1' }],
  ['what can be met', 417, {}, { 'x-met': '1' }],
  ['another server', 421, {}, { 'x-other': '1' }],
  ['no early data', 425, {}, { 'x-late': '1' }],
  ['another protocol', 426, { Upgrade: 'TLS/1.2' }, { 'x-other': '1' }],
  ['a condition', 428, {}, { 'if-match': '"1"' }],
  ['patience', 429, {}, { 'x-later': '1' }],
  ['fewer headers', 431, {}, { 'x-few': '1' }],
  ['a login to the network', 511, {}, { 'x-network': '1' }],
  ['a type of another kind', 400, { 'Accept-Post': 'text/turtle' }, { 'x-type': '1' }],
  ['a patch of another kind', 422, { 'Accept-Patch': 'application/example' }, { 'x-type': '1' }],
  ['something that has no standard', 462, {}, { 'x-any': '1' }],
])(
  'a client that is asked for %s (%i) and complies is executed',
  async (_, status, refusal, wanted, body) => {
    await using application = await startApplication(refusing(status, refusal, wanted, body))
    await using proxy = await startProxy(application.origin)
    // Not by `fetch`, which keeps 407 to itself and sends again after 421.
    const post = async (headers: Lines = {}) => {
      const answer = await request(`${proxy.origin}/things`, {
        method: 'POST',
        body: '{}',
        headers: { 'content-type': 'application/json', 'idempotency-key': 'k', ...headers },
      })
      await answer.body.dump()
      return `${answer.statusCode} ${answer.headers['idempotency-status']}`
    }
    expect([await post(), await post(wanted), await post(wanted)]).toEqual([
      `${status} released`,
      '201 created',
      '201 replayed',
    ])
    expect(application.seen.length).toBe(2)
  },
)

test.each([400, 402, 409, 410, 422])('%i is the verdict on a request, and replayed', async (status) => {
  await using application = await startApplication(refusing(status, {}, { 'x-any': '1' }))
  await using proxy = await startProxy(application.origin)
  expect(told(await proxy.post('k'))).toBe(`${status} created`)
  expect(told(await proxy.post('k', '{}', { 'x-any': '1' }))).toBe(`${status} replayed`)
})

// Bug: an anonymous client filled the nodes with answers to paths that there are not.
test('a path that there is not leaves no record', async () => {
  await using application = await startApplication((_request, response) => void response.writeHead(404).end())
  await using proxy = await startProxy(application.origin, { routes: [route({ mode: 'content' })] })
  expect(told(await proxy.post(undefined))).toBe('404 released')
  expect(told(await proxy.post(undefined))).toBe('404 released')
})

// Bug: `hold` was ignored beside `Retry-After`, and the request was executed twice.
test('a status that the route names does what the route says, whatever the answer says besides', async () => {
  await using application = await startApplication((_request, response) => {
    response.writeHead(503, { 'Retry-After': '1' }).end()
  })
  await using proxy = await startProxy(application.origin, { routes: [route({ store: { 503: 'hold' } })] })
  expect(told(await proxy.post('k'))).toBe('503 unstored')
  expect(told(await proxy.post('k'))).toBe('409 in-progress')
  expect(application.seen.length).toBe(1)
})

// What is done is done: the same lines speak of what may come next (Solid and other servers of linked data send them with each answer).
test('an answer that says it is done is an outcome, whatever it would accept besides', async () => {
  await using application = await startApplication((_request, response) => {
    const accepts = { 'Accept-Post': 'text/turtle', 'Accept-Patch': 'text/n3', 'Accept-Encoding': 'gzip' }
    response.writeHead(201, accepts).end()
  })
  await using proxy = await startProxy(application.origin)
  expect([told(await proxy.post('k')), told(await proxy.post('k'))]).toEqual(['201 created', '201 replayed'])
})
