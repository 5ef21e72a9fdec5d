// The flood judges sidecars; here it is tested by a table, a real sidecar, and ones broken on purpose.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, test } from 'vitest'
import { type Copy, judge, type Result } from '../../src/probe/flood.ts'
import { startFencepost } from '../support/processes.ts'
import { seriesOf } from '../support/series.ts'
import { startSidecar } from '../support/sidecar.ts'

const [R, n, x]: Copy[] = ['reserved', 'refused', 'failed']

test.each<[copies: (Copy | undefined)[], result: Result]>([
  [[R, n, n], 'ok'],
  [[n, n, n], 'false_positive'],
  [[R, R, n], 'false_negative'],
  [[R, n, x], 'error'],
  [[n, n, x], 'error'],
  // Two holders are wrong, whatever became of the third.
  [[R, R, x], 'false_negative'],
])('%j: %s', (copies, result) => {
  expect(judge(copies.filter((copy) => copy !== undefined))).toBe(result)
})

describe('fencepost probe --once', () => {
  test('exits with 0 against sidecars that keep the promise, and serves its metrics', async () => {
    await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded' })
    const args = ['--api', sidecar.api, '--rate', '200', '--json']
    await using once = startFencepost(['probe', ...args, '--once'])
    expect(await once.exited, once.output).toMatchObject({ code: 0 })
    const last = JSON.parse(once.output.trim().split('\n').at(-1) ?? '') as Record<string, unknown>
    expect(last).toMatchObject({
      volleys: 20,
      requests: 100,
      ok: 20,
      false_positive: 0,
      false_negative: 0,
      error: 0,
    })

    await using going = startFencepost(['probe', ...args, '--prometheus', '127.0.0.1:0'])
    const [, url = ''] = await going.line(/metrics on (\S+)$/)
    await going.line(/"ok":[1-9]/)
    const series = seriesOf(await (await fetch(url)).text())
    expect(series.get('fencepost_synthetic_probe_total{result="ok"}')).toBeGreaterThan(0)
    expect(series.get('fencepost_synthetic_probe_total{result="false_negative"}')).toBe(0)
    expect(await going.end({ signal: 'SIGINT' })).toMatchObject({ code: 0 })
  })

  test.each([
    ['grants every copy', 201, /20 false negatives/],
    ['refuses every copy', 409, /20 false positives/],
    ['is broken', 500, /20 errors/],
  ])('ends with 1 against one that %s', async (_, status, says) => {
    const server = createServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ reservation_id: 'r', fencing_token: 1 }))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    await using probe = startFencepost(['probe', '--api', url, '--rate', '500', '--once'])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(probe.output).toMatch(says)
    server.close()
    server.closeAllConnections()
  })
})
