/** What is told of connections beyond `limits.connections`: their clients get no answer that could say why. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { countRefusedConnections } from '../../src/app/listener-limits.ts'
import type { CoreEvent } from '../../src/core/events.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { between, startSidecar } from '../support/sidecar.ts'

test('a line and a metric say how many were refused, and by which limit', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_CONNECTIONS: '1',
  })
  const { hostname, port } = new URL(sidecar.proxy)
  const open = () => connect({ host: hostname, port: Number(port) })
  const held = open()
  await once(held, 'connect')
  const refused = [open(), open()]
  await Promise.all(
    refused.map((socket) =>
      once(
        socket.resume().on('error', () => {}),
        'close',
      ),
    ),
  )
  const [line] = await sidecar.process.line(/^\{.*"event":"connections_refused".*$/)
  expect(JSON.parse(line)).toMatchObject({ level: 'warn', limit: 1 })
  const metrics = await (await fetch(`${sidecar.admin}/metrics`)).text()
  expect(metrics).toMatch(/^fencepost_connections_refused_total [12]$/m)
  held.destroy()
})

test('a flood of them is one event a second, which has their number', () => {
  const published: CoreEvent[] = []
  let fire: (() => void)[] = []
  const clock = {
    monoMs: () => 0,
    wallMs: () => 0,
    timer: (_: number, then: () => void) => {
      fire.push(then)
      return { cancel: () => {} }
    },
  }
  const events = { publish: (event: CoreEvent) => void published.push(event) }
  const refused = countRefusedConnections({ clock, events }, { connectionsMax: 4_096 })
  for (let count = 0; count < 500; count += 1) refused()
  expect([published, fire.length]).toEqual([[], 1])
  fire[0]?.()
  fire = []
  refused()
  expect(fire.length).toBe(1)
  fire[0]?.()
  expect(published).toEqual([
    { kind: 'connections_refused', refused: 500, limit: 4_096 },
    { kind: 'connections_refused', refused: 1, limit: 4_096 },
  ])
})
