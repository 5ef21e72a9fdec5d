/** What a call of the reservation API may be long, whatever the proxy takes. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { callApi, reserveAt } from '../support/reservation-api.ts'
import { startSidecar } from '../support/sidecar.ts'

// Bug: the limit of bodies of protected requests was that of every call. With one of 0 each was refused with 413; with a small one a
// result was that may be stored, and with a larger one of a route a request was that the proxy takes.
test('the limit of protected requests is none for calls of the reservation API', async () => {
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_BODY_LIMIT: '0B',
  })
  const { id, token } = await reserveAt(sidecar.api, { session_id: 's', reserved_value: 'v' })
  const body = { fencing_token: token, result: 'x'.repeat(250 * 1024) }
  expect(await callApi(sidecar.api, `/v1/reservations/${id}/complete`, body)).toMatchObject({ status: 200 })
})

test('a described request may have as long a body as its route takes', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-uploads-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const config = join(folder, 'config.yaml')
  writeFileSync(config, 'routes: [{ name: uploads, match: {}, mode: content, bodyLimit: 2MiB }]')
  await using sidecar = await startSidecar({
    FENCEPOST_CONFIG: config,
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
  })
  const described = (bytes: number) =>
    callApi(sidecar.api, '/v1/reservations', {
      session_id: 's',
      request: {
        method: 'POST',
        path: '/uploads',
        headers: { host: 'shop' },
        body_base64: Buffer.alloc(bytes, 1).toString('base64'),
      },
    })
  expect(await described(2 * 2 ** 20)).toMatchObject({ status: 201 })
  expect(await described(2 * 2 ** 20 + 1)).toMatchObject({ status: 413, body: { code: 'body-too-large' } })
})
