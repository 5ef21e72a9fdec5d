// The log of a whole sidecar whose standard output takes nothing: requests are served as before.
import { expect, test } from 'vitest'
import { startCountingApplication } from '../support/counting-application.ts'
import { freePort } from '../support/free-port.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { between } from '../support/sidecar.ts'

// Bug: a sidecar ended with the first line that the disk of its log had no room for, whatever was under way.
test('a payment is executed once, and the sidecar ends as it is told to, on a full disk', async () => {
  await using application = await startCountingApplication()
  const [proxy, admin] = [
    `http://127.0.0.1:${await freePort()}`,
    `http://127.0.0.1:${await freePort()}`,
  ] as const
  const onFullDisk = 'exec "$@" > /dev/full'
  await using sidecar = new TestProcess(
    'sh',
    ['-c', onFullDisk, 'sh', process.execPath, MAIN_PROGRAM, 'serve'],
    {
      env: {
        ...between('embedded', application),
        FENCEPOST_PROXY_LISTEN: new URL(proxy).host,
        FENCEPOST_API_LISTEN: 'off',
        FENCEPOST_ADMIN_LISTEN: new URL(admin).host,
        FENCEPOST_CLAIM_BUDGET: '3s',
      },
    },
  )
  await sidecar.http(`${admin}/readyz`, 200, { withinMs: 20_000 })
  const pay = async () => {
    const headers = { 'idempotency-key': 'order-42' }
    const answer = await fetch(`${proxy}/payments`, { method: 'POST', headers, body: '{}' })
    return [answer.status, answer.headers.get('idempotency-status')]
  }
  expect([await pay(), await pay()]).toEqual([
    [201, 'created'],
    [201, 'replayed'],
  ])
  expect(application.of('order-42')).toHaveLength(1)
  const metrics = await (await fetch(`${admin}/metrics`)).text()
  expect(metrics).toMatch(/^fencepost_log_lines_dropped_total\{reason="not_taken"\} [1-9]/m)
  expect(metrics).toMatch(/^fencepost_log_lines_dropped_total\{reason="sampled"\} 0$/m)
  expect(await sidecar.end()).toEqual({ code: 0, signal: null })
  expect(sidecar.output).toBe('')
})
