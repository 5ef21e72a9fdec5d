/**
 * Pages that a browser of this machine shows, and the listener on its localhost: without a token they are told apart from the callers
 * that the listener is for by what a browser sends, and no page can leave out.
 *
 * Bug: whoever could name the listener could call it. A page whose name had been led to 127.0.0.1 (DNS rebinding) reserved, read results
 * and ended what it reserved; a page of any name let sagas go on, because that call has no body.
 */
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { startChromium } from '../../support/chromium.ts'
import { eventually } from '../../support/eventually.ts'
import { listening } from '../../support/listening.ts'
import { openWire } from '../../support/proxy.ts'
import { startReservationApi, type TestApiOptions } from '../../support/reservation-api.ts'

const BODY = '{"session_id":"s","reserved_value":"v"}'

async function answerTo(lines: readonly string[], given: TestApiOptions = {}): Promise<string> {
  await using api = await startReservationApi(given)
  await using wire = await openWire(Number(new URL(api.origin).port))
  const head = ['POST /v1/reservations HTTP/1.1', ...lines, 'Content-Type: application/json']
  wire.send([...head, `Content-Length: ${BODY.length}`, '', BODY].join('\r\n'))
  await eventually('an answer', () => /^HTTP\/1\.1 \d{3} .*\r\n\r\n\{.*\}$/s.test(wire.received()))
  expect(api.failures).toEqual([])
  return wire.received()
}

test.each<[what: string, host: string, origin: string | undefined, status: number]>([
  ['an address', '127.0.0.1:8081', undefined, 201],
  ['an address of IPv6', '[::1]:8081', undefined, 201],
  ['the address of another interface', '10.1.2.3:8081', undefined, 201],
  ['localhost', 'localhost:8081', undefined, 201],
  ['localhost, without a port and in other letters', 'LocalHost', undefined, 201],
  ['localhost, with the dot of the root', 'localhost.:8081', undefined, 201],
  ['a name below localhost', 'api.localhost:8081', undefined, 201],
  ['the host of a container', 'host.docker.internal:8081', undefined, 201],
  ['a page of the listener itself', 'localhost:8081', 'http://localhost:8081', 201],
  ['a name that was led here', 'evil.example:8081', undefined, 403],
  ['a name that begins like an address', '127.0.0.1.evil.example', undefined, 403],
  ['a name that begins like localhost', 'localhost.evil.example', undefined, 403],
  ['a name that ends like localhost', 'evil-localhost', undefined, 403],
  ['a page that was led here', 'evil.example:8081', 'http://evil.example:8081', 403],
  ['a page of another site', '127.0.0.1:8081', 'https://evil.example', 403],
  ['a page of another port', '127.0.0.1:8081', 'http://127.0.0.1:3000', 403],
  ['a page of no origin', '127.0.0.1:8081', 'null', 403],
])('%s: Host %s, Origin %s', async (_what, host, origin, status) => {
  const lines = [`Host: ${host}`, ...(origin === undefined ? [] : [`Origin: ${origin}`])]
  const answer = await answerTo(lines)
  expect(Number(answer.slice(9, 12))).toBe(status)
  if (status === 403) expect(answer).toContain('"code":"page-refused"')
})

test('a caller with a token may call it by any name', async () => {
  const lines = ['Host: fencepost.example', 'Origin: https://tool.example', 'Authorization: Bearer secret']
  expect(await answerTo(lines, { options: { apiTokens: () => ['secret'] } })).toContain('HTTP/1.1 201')
})

test('where no browser can be led to the listener, its name does not count, and the origin of a page does', async () => {
  const given = { options: { hosts: 'any' } } as const
  expect(await answerTo(['Host: fencepost'], given)).toContain('HTTP/1.1 201')
  expect(await answerTo(['Host: fencepost', 'Origin: https://evil.example'], given)).toContain('403')
})

test('a page in a browser reaches nothing, under a name that was led here and across sites', async () => {
  await using api = await startReservationApi()
  const { id, token } = await api.reserve({ session_id: 's', reserved_value: 'v' })
  await api.call(`/v1/reservations/${id}/complete`, { fencing_token: token, result: 'a secret' })
  const site = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('hello'))
  const at = await listening(site)
  await using browser = await startChromium({ 'evil.example': '127.0.0.1' })
  const { page } = await browser.open()

  const led = `http://evil.example:${new URL(api.origin).port}`
  await page.goto(`${led}/openapi.json`)
  const read = `fetch('/v1/reservations?value=v').then((answer) => answer.text())`
  expect(await page.evaluate(read)).not.toContain('a secret')
  const reserve = `fetch('/v1/reservations', { method: 'POST', headers: { 'Content-Type': 'application/json' },
    body: '{"session_id":"page","reserved_value":"w"}' }).then((answer) => answer.status)`
  expect(await page.evaluate(reserve)).toBe(403)

  await page.goto(`http://evil.example:${at.port}`)
  // A simple request, which the browser sends without asking.
  const across = `fetch('${api.origin}/v1/reservations', { method: 'POST', mode: 'no-cors',
    body: '{"session_id":"page","reserved_value":"x"}' }).catch(String)`
  await page.evaluate(across)
  const { id: still } = await api.reserve({ session_id: 's', reserved_value: 'x' })
  expect(still).toEqual(expect.any(String))
  site.close()
})
