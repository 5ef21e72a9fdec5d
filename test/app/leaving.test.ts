/**
 * What a sidecar does from the signal that its pod is about to end (SIGUSR2, sent by the preStop of its container) until SIGTERM.
 *
 * Bug: clients with open connections stayed at a pod until its application was gone, and got 502, then 503.
 */
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { postedJson } from '../support/post.ts'
import { between, startSidecar } from '../support/sidecar.ts'

test('on SIGUSR2 each answer ends its connection, also a connection of before, and requests are executed as ever', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar(between('embedded', application))
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const pay = async (key: string) => {
    const headers = { 'Idempotency-Key': key }
    const sent = request(`${sidecar.proxy}/payments`, { agent, method: 'POST', headers }).end('{}')
    const [answer] = (await once(sent, 'response')) as [IncomingMessage]
    await once(answer.resume(), 'end')
    return [answer.statusCode, answer.headers.connection, sent.reusedSocket]
  }
  expect(await pay('first')).toEqual([201, 'keep-alive', false])

  sidecar.process.signal('SIGUSR2')
  await sidecar.process.line(/leaving: each answer ends its connection/)
  expect(await pay('on-the-open-connection')).toEqual([201, 'close', true])
  expect(await pay('on-a-new-connection')).toEqual([201, 'close', false])
  expect(application.executions.length).toBe(3)

  const ready = await fetch(`${sidecar.admin}/readyz`)
  expect([ready.status, await ready.json()]).toMatchObject([503, { reasons: ['its pod is about to end'] }])
  await sidecar.process.http(`${sidecar.admin}/livez`, 200)

  // A second hook changes nothing, and SIGTERM is what it was.
  sidecar.process.signal('SIGUSR2')
  expect(await pay('after-a-second-signal')).toEqual([201, 'close', false])
  expect(await sidecar.process.end()).toEqual({ code: 0, signal: null })
  agent.destroy()
})

test.each(['api', 'gateway'] as const)(
  'on SIGUSR2 the %s listener ends connections, too',
  async (listener) => {
    await using sidecar = await startSidecar({
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    })
    const ask = async () => {
      const answer =
        listener === 'api'
          ? await postedJson(`${sidecar.api}/v1/reservations`, {
              session_id: 'me',
              reserved_value: crypto.randomUUID(),
            })
          : await fetch(`${sidecar.gateway}/v1/check`, { method: 'POST' })
      await answer.text()
      return answer.headers.get('connection')
    }
    expect(await ask()).toBe('keep-alive')
    sidecar.process.signal('SIGUSR2')
    await sidecar.process.line(/leaving: each answer ends its connection/)
    expect(await ask()).toBe('close')
  },
)
