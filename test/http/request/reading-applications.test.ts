/**
 * What is compared, and what finds a route, is what the application reads: on Puma, PHP and gunicorn themselves. No case says how an
 * application reads it: it tells, and its word is held against what the sidecar did.
 */
import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { hintsFor } from '../../../src/config/hints.ts'
import { loadConfig } from '../../../src/config/load.ts'
import { duringTests } from '../../support/during-tests.ts'
import { startProxy } from '../../support/proxy.ts'
import {
  READING_APPLICATIONS,
  type Read,
  startReadingApplication,
} from '../../support/reading-applications.ts'

const FILE = `
upstream: { address: http://127.0.0.1:9 }
redis: { nodes: embedded }
routes:
  - name: compared
    match: { paths: [/compared] }
    mode: content
  - name: live
    match: { methods: [POST], headers: { x-mode: { equals: live } } }
    mode: header
  - name: put
    match: { methods: [PUT], paths: [/payments] }
    mode: header
  - name: pay
    match: { methods: [POST], paths: [/pay] }
    mode: header
`
const loaded = loadConfig({ FENCEPOST_CONFIG: 'file' }, () => FILE)
if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
const { config } = loaded

type Sent = { readonly target: string; readonly headers?: Record<string, string>; readonly body?: string }
const FORM = { 'content-type': 'application/x-www-form-urlencoded' }

async function send(origin: string, { target, headers = FORM, body }: Sent, key?: string): Promise<Read> {
  const answer = await fetch(origin + target, {
    method: 'POST',
    headers: { ...headers, ...(key === undefined ? {} : { 'idempotency-key': key }) },
    ...(body === undefined ? {} : { body }),
  })
  expect(answer.status).toBe(201)
  return (await answer.json()) as Read
}

const meaning = ({ id: _, ...read }: Read) => JSON.stringify(read)

describe.each(READING_APPLICATIONS)('%s', (name) => {
  const application = duringTests(() => startReadingApplication(name))
  const proxy = duringTests(() => startProxy(application.origin, { routes: config.routes }))

  const query = (first: string, second: string): [Sent, Sent] => [
    { target: `/compared?${first}` },
    { target: `/compared?${second}` },
  ]
  const form = (first: string, second: string): [Sent, Sent] => [
    { target: '/compared?form', body: first },
    { target: '/compared?form', body: second },
  ]

  test.each<[Sent, Sent]>([
    query('x=1;b=2&b=3', 'b=3&x=1;b=2'),
    query('a[]=1&a[0]=2', 'a[0]=2&a[]=1'),
    query('a.b=1&a_b=2', 'a_b=2&a.b=1'),
    query('%20a=1&a=2', 'a=2&%20a=1'),
    query('c=1&c[d]=2', 'c[d]=2&c=1'),
    form('a=1;b=2', 'a=1%3Bb=2'),
    form('a=1&a=2', 'a=2&a=1'),
    form('a=1%00', 'a=1\0'),
  ])('what it reads as two requests is executed twice: %j, %j', async (first, second) => {
    const read = [await send(application.origin, first), await send(application.origin, second)] as const
    const got = [await send(proxy.origin, first), await send(proxy.origin, second)] as const
    if (meaning(read[0]) !== meaning(read[1])) expect(got[0].id).not.toBe(got[1].id)
    if (got[0].id !== got[1].id) expect(got.map(meaning)).toEqual(read.map(meaning))
  })

  test.each<[Sent, Sent]>([query('y=1&z=2', 'z=2&y=1'), form('a=+&b=%7e', 'a=%20&b=~')])(
    'what it reads as one request is executed once: %j, %j',
    async (first, second) => {
      const got = [await send(proxy.origin, first), await send(proxy.origin, second)] as const
      expect(got[0].id).toBe(got[1].id)
    },
  )

  const isToBeProtected = ({ method, path, mode }: Read) =>
    mode === 'live' || (method === 'PUT' && path === '/payments') || (method === 'POST' && path === '/pay')

  test.each<Sent>([
    { target: '/pay' },
    { target: '/p%61y/' },
    { target: '//pay' },
    { target: '/pay%20' },
    { target: '/%20pay' },
    { target: '/pay/%20' },
    { target: '/pay%0A' },
    { target: '/pay+' },
    { target: '/index.php/pay' },
    { target: '/index.php/pay%20' },
    { target: '/index.php/x/..%2Fpay' },
    { target: '/%2Fpay' },
    { target: '/other', headers: { 'X-Mode': 'live' } },
    { target: '/other', headers: { X_Mode: 'live' } },
    { target: '/other', headers: { 'X.Mode': 'live' } },
    { target: '/other', headers: { 'X-Mode': 'test', X_Mode: 'live' } },
    { target: '/other', headers: { X_Mode: 'live', 'X-Mode': 'test' } },
    { target: '/payments', headers: { 'X-HTTP-Method-Override': 'PUT' } },
    { target: '/payments', headers: { X_HTTP_METHOD_OVERRIDE: 'put' } },
    { target: '/payments?_method=PUT' },
    { target: '/payments?a=1;_method=PUT' },
    { target: '/payments?%5fmethod=put' },
  ])('what it reads as protected is executed once for a key: %j', async (sent) => {
    const read = await send(application.origin, sent)
    const key = randomUUID()
    const got = [await send(proxy.origin, sent, key), await send(proxy.origin, sent, key)] as const
    if (isToBeProtected(read)) expect(got[0].id).toBe(got[1].id)
    expect(got.map(meaning)).toEqual([meaning(read), meaning(read)])
  })

  test('a form that says another method passes by the route for it, and a check of the configuration says so', async () => {
    const sent = { target: '/payments', body: '_method=PUT' }
    const read = await send(application.origin, sent)
    const passes = isToBeProtected(read)
    expect(passes).toBe(name !== 'gunicorn')
    expect(hintsFor(config).filter((hint) => hint.includes('_method'))).toEqual([
      expect.stringMatching(/^route put: /),
    ])
  })
})
