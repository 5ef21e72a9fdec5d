/** Requests that wait for a connection to the application, whose claim ends meanwhile. */
import { expect, test } from 'vitest'
import { systemClock } from '../../src/system/clock.ts'
import { createApplication } from '../../src/upstream/application.ts'
import { startApplication } from '../support/application.ts'
import { eventually } from '../support/eventually.ts'
import { hold } from '../support/proxy.ts'

test('a request whose claim ended while it waited for a connection is not sent when one comes free', async () => {
  const held = hold()
  await using server = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(200, { 'Content-Length': '0' }).end()
  })
  await using application = createApplication({
    address: { kind: 'http', origin: server.origin },
    connectTimeoutMs: 500,
    bodyIdleMs: 5_000,
    connectionsMax: 1,
    keepAliveMs: 4_000,
    clock: systemClock,
  })
  let claimed = true
  const forward = (target: string, mayBegin: () => boolean = () => true) =>
    application.forward(
      { method: 'POST', target, headers: [], body: Buffer.from('pay') },
      { answerWithinMs: 5_000, storedLimitBytes: 1_024, mayBegin },
    )
  const first = forward('/first')
  await eventually('the only connection is taken', () => server.seen.length === 1)
  const waiting = forward('/lost', () => claimed)
  const behind = forward('/behind')
  claimed = false
  held.release()
  expect(await waiting).toEqual({
    kind: 'never_sent',
    detail: 'the claim ended before there was a connection',
  })
  expect((await Promise.all([first, behind])).map(({ kind }) => kind)).toEqual(['answered', 'answered'])
  expect(server.seen.map(({ target }) => target)).toEqual(['/first', '/behind'])
})
