/**
 * Pages of another origin than the proxy's: what a browser lets them read of the proxy's own answers.
 *
 * Bug: nothing, whatever the application allowed. To the page a 409 with its `Retry-After` was a failed request without a status.
 */
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { type Respond, startApplication } from '../../support/application.ts'
import { startChromium } from '../../support/chromium.ts'
import { eventually } from '../../support/eventually.ts'
import { freePort } from '../../support/free-port.ts'
import { listening } from '../../support/listening.ts'
import { hold, startProxy } from '../../support/proxy.ts'

const SHOP = 'https://shop.example'

function corsOf({ headers }: Response): Record<string, string> {
  const lines = [...headers].filter(([name]) => name.startsWith('access-control-') || name === 'vary')
  return Object.fromEntries(lines)
}

const READABLE = {
  'access-control-allow-origin': SHOP,
  'access-control-allow-credentials': 'true',
  'access-control-expose-headers':
    'Idempotency-Status, Idempotent-Replayed, Idempotency-Created-At, Retry-After, Location',
  vary: 'Origin',
}

test.each<[whose: string, origins: readonly string[], sent: Record<string, string>, cors: object]>([
  ['a page that is named', ['https://other.example', SHOP], { origin: SHOP }, READABLE],
  ['a page that is not', ['https://other.example'], { origin: SHOP }, { vary: 'Origin' }],
  ['a page of no origin', [SHOP], { origin: 'null' }, { vary: 'Origin' }],
  ['a client that is no page', [SHOP], {}, { vary: 'Origin' }],
  ['any page, where none is named', [], { origin: SHOP }, {}],
])('problems and %s', async (_, pageOrigins, sent, cors) => {
  await using proxy = await startProxy(`http://127.0.0.1:${await freePort()}`, { options: { pageOrigins } })
  const answers = [
    await proxy.post('unreachable', '{}', sent),
    await proxy.post('x'.repeat(300), '{}', sent),
    await proxy.fetch('/unprotected', { headers: sent }),
  ]
  expect(answers.map(({ status }) => status)).toEqual([502, 400, 502])
  for (const answer of answers) expect(corsOf(answer)).toEqual(cors)
})

test('what the application allows stays its own: answers, replays and preflights', async () => {
  await using application = await startApplication((_, response) => {
    response.writeHead(201, { 'Access-Control-Allow-Origin': '*' }).end('paid')
  })
  await using proxy = await startProxy(application.origin, { options: { pageOrigins: [SHOP] } })
  const allowed = { 'access-control-allow-origin': '*' }
  for (const status of ['created', 'replayed']) {
    const answer = await proxy.post('k', '{}', { origin: SHOP })
    expect([answer.headers.get('idempotency-status'), corsOf(answer)]).toEqual([status, allowed])
  }
  expect(corsOf(await proxy.fetch('/things', { method: 'OPTIONS', headers: { origin: SHOP } }))).toEqual(
    allowed,
  )
})

test('a page in a browser reads why it was refused, and when to try again', async () => {
  const page = createServer((_, response) => {
    response.setHeader('Content-Type', 'text/html').end('<title>shop</title>')
  })
  const { origin } = await listening(page)
  const held = hold()
  const answer: Respond = async ({ method }, response) => {
    response.setHeader('Access-Control-Allow-Origin', origin)
    response.setHeader('Access-Control-Allow-Credentials', 'true')
    response.setHeader('Access-Control-Allow-Headers', 'Idempotency-Key')
    if (method === 'POST') await held.released
    response.end('paid')
  }
  await using application = await startApplication(answer)
  await using proxy = await startProxy(application.origin, { options: { pageOrigins: [origin] } })
  await using browser = await startChromium()
  const { page: tab } = await browser.open()
  await tab.goto(origin)
  // In the browser: there is no type of its globals here.
  const pay = `fetch('${proxy.origin}/pay', { method: 'POST', credentials: 'include', headers: { 'Idempotency-Key': 'k' } })
    .then(async (answer) => [answer.status, answer.headers.get('idempotency-status'), answer.headers.get('retry-after') > 0, (await answer.text()).slice(0, 4)])`
  const first = tab.evaluate(pay)
  await eventually('the first is at work', () => application.seen.some(({ method }) => method === 'POST'))
  expect(await tab.evaluate(pay)).toEqual([409, 'in-progress', true, '{"ty'])
  held.release()
  // What the application exposes is its own matter.
  expect(await first).toEqual([200, null, false, 'paid'])
  page.close()
})
