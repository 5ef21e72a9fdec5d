/** What the body of a call takes while it is read. */
import { expect, test } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { openWire } from '../../support/proxy.ts'
import { startSidecar } from '../../support/sidecar.ts'

// Bug: each chunk was kept as it came. One such body of 1 MB took 400 MB.
test('a body in chunks of one byte takes little more than its bytes', async () => {
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
  })
  const residentMiB = async () => {
    const metrics = await (await fetch(`${sidecar.admin}/metrics`)).text()
    return Number(/^process_resident_memory_bytes (\d+)/m.exec(metrics)?.[1]) / 2 ** 20
  }
  const before = await residentMiB()
  await using wire = await openWire(Number(new URL(sidecar.api).port))
  const body = '{"session_id":"s","reserved_value":"v"}'.padStart(1_000_000)
  wire.send('POST /v1/reservations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n')
  wire.send('Transfer-Encoding: chunked\r\n\r\n')
  wire.send(body.replace(/./g, '1\r\n$&\r\n'))
  wire.send('0\r\n\r\n')
  await eventually('an answer', () => wire.received().includes('\r\n\r\n'), { withinMs: 30_000 })
  expect(wire.received()).toMatch(/^HTTP\/1\.1 201 /)
  expect((await residentMiB()) - before).toBeLessThan(150)
})
