/** Upgrades that were given up while they waited for a connection. */
import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { eventually } from '../support/eventually.ts'
import { hold } from '../support/proxy.ts'
import { applicationAt } from './application-at.ts'

test('an upgrade that got no connection in time is not sent when one comes free', async () => {
  const held = hold()
  await using server = await startApplication(async (_request, response) => {
    await held.released
    response.writeHead(204).end()
  })
  await using application = applicationAt(server.origin)
  const asked = (target: string) => ({ method: 'GET', target, headers: [], body: undefined })
  const forward = (target: string) =>
    application.forward(asked(target), { answerWithinMs: 5_000, storedLimitBytes: 1_024 })
  const first = forward('/first')
  await eventually('the only connection is taken', () => server.seen.length === 1)
  const { signal } = new AbortController()
  expect(await application.upgrade(asked('/socket'), 'websocket', 20, signal)).toMatchObject({
    kind: 'never_sent',
  })
  const behind = forward('/behind')
  held.release()
  expect((await Promise.all([first, behind])).map(({ kind }) => kind)).toEqual(['answered', 'answered'])
  expect(server.seen.map(({ target }) => target)).toEqual(['/first', '/behind'])
})
