/**
 * The operator listener with a certificate, as people call it: in clear text and without a certificate of the client
 * nobody gets as far as a token, a renewed certificate is in force without a restart, the other listeners stay as they
 * are, and no word of what operators send or get stands in a log, a metric or a trace.
 */
import { copyFileSync } from 'node:fs'
import { request as plainRequest, type RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { expect, test } from 'vitest'
import { canary, found } from '../support/canaries.ts'
import { makeAuthority } from '../support/certificates.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { operatorTokensFile } from '../support/operator-caller.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { between, PATIENT, startSidecar } from '../support/sidecar.ts'

type Client = { readonly ca?: string; readonly cert?: string; readonly key?: string }

function ask(url: string, options: RequestOptions & Client, body?: unknown) {
  return new Promise<{ status: number; text: string; server: string }>((resolve, reject) => {
    const request = url.startsWith('https') ? tlsRequest : plainRequest
    const sent = request(url, { agent: false, ...options }, (response) => {
      let text = ''
      const socket = response.socket as TLSSocket
      const server = 'encrypted' in socket ? String(socket.getPeerCertificate().subject.CN) : ''
      response.setEncoding('utf8').on('data', (part) => {
        text += part
      })
      response
        .on('error', reject)
        .on('end', () => resolve({ status: response.statusCode ?? 0, text, server }))
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

test('operators come in by TLS and a token alone; nothing of theirs is in a log, a metric or a trace', {
  timeout: 120_000,
}, async () => {
  using authority = makeAuthority()
  using strangers = makeAuthority('another authority')
  const server = authority.sign('first')
  const [client, stranger] = [authority.sign('client'), strangers.sign('stranger')]
  const secret = {
    view: canary('token-of-a-viewer'),
    operate: canary('token-of-an-operator'),
    wrong: canary('wrong-token'),
  }
  const given = {
    reason: canary('reason'),
    answer: canary('answer'),
    key: canary('key'),
    body: canary('body'),
  }
  using tokens = operatorTokensFile(`ann view ${secret.view}\nbob operate ${secret.operate}\n`)
  let told = ''
  await using servers = await startRedisServers(3, { founded: true })
  await using application = await startCountingApplication()
  await using traces = await startOtlpReceiver()
  await using sidecar = await startSidecar(
    {
      ...PATIENT,
      ...traces.env,
      ...between(servers, application),
      FENCEPOST_LOG_LEVEL: 'trace',
      FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
      FENCEPOST_OPERATOR_TOKENS_FILE: tokens.path,
      FENCEPOST_TLS_LISTENERS: 'operator',
      FENCEPOST_TLS_CERT_FILE: server.certFile,
      FENCEPOST_TLS_KEY_FILE: server.keyFile,
      FENCEPOST_TLS_CLIENT_CA_FILE: authority.caFile,
    },
    {
      startWithinMs: 60_000,
      onOutput: (text) => {
        told += text
      },
    },
  )
  expect(sidecar.operator).toMatch(/^https:/)
  const trusting = { ca: authority.ca() }
  const known = { ...trusting, cert: client.cert(), key: client.key() }
  const as = (token: string) => ({ authorization: `Bearer ${token}`, 'content-type': 'application/json' })
  const list = `${sidecar.operator}/v1/operator/records?state=live`
  expect(await ask(list, { ...known, headers: as(secret.view) })).toMatchObject({
    status: 200,
    server: 'first',
  })
  await expect(ask(list, { ...trusting, headers: as(secret.view) })).rejects.toThrow()
  const foreign = { ...trusting, cert: stranger.cert(), key: stranger.key() }
  await expect(ask(list, { ...foreign, headers: as(secret.view) })).rejects.toThrow()
  await expect(ask(list.replace('https:', 'http:'), { headers: as(secret.view) })).rejects.toThrow()
  const unknown = await ask(list, { ...known, headers: as(secret.wrong) })
  expect([unknown.status, found(unknown.text)]).toEqual([401, []])

  // The other listeners speak clear text as before, and know no operator.
  expect((await ask(`${sidecar.admin}/livez`, {})).status).toBe(200)
  for (const other of [sidecar.admin, sidecar.api])
    expect(
      (await ask(`${other}/v1/operator/records?state=live`, { headers: as(secret.operate) })).status,
    ).toBe(404)
  for (const path of ['/', '/page/app.js', '/page/app.css'])
    for (const other of [sidecar.admin, sidecar.api])
      expect([path, (await ask(other + path, {})).status]).toEqual([path, 404])
  // The proxy passes such a path on, as any other: the application may have it.
  await ask(`${sidecar.proxy}/v1/operator/records?state=live`, {})
  expect(application.executions.at(-1)?.url).toBe('/v1/operator/records?state=live')

  // A request, and a decision about it with an answer and a reason of the operator.
  const headers = { 'idempotency-key': given.key, 'content-type': 'application/json' }
  const paid = await ask(`${sidecar.proxy}/payments`, { method: 'POST', headers }, { note: given.body })
  expect(paid.status).toBe(201)
  const post = (path: string, body: unknown) =>
    ask(
      `${sidecar.operator}/v1/operator/records${path}`,
      { ...known, method: 'POST', headers: as(secret.operate) },
      body,
    )
  const asked = { key: { method: 'POST', path: '/payments', idempotency_key: given.key } }
  const { records } = JSON.parse((await post('/find', asked)).text) as { records: { record: string }[] }
  const decision = {
    reason: given.reason,
    even_though: 'completed',
    answer: { status: 200, body: given.answer },
  }
  const decided = await post(`/${encodeURIComponent(records[0]!.record)}/complete`, decision)
  expect(decided.status).toBe(200)
  expect(found(decided.text).filter((word) => Object.values(secret).includes(word))).toEqual([])
  const metrics = await ask(`${sidecar.admin}/metrics`, {})
  expect(metrics.text).toContain('fencepost_')

  const renewed = authority.sign('second')
  copyFileSync(renewed.certFile, server.certFile)
  copyFileSync(renewed.keyFile, server.keyFile)
  await eventually('the new certificate', async () => {
    const { server: shown } = await ask(list, { ...known, headers: as(secret.view) })
    return shown === 'second'
  })
  sidecar.process.signal('SIGTERM')
  await sidecar.process.exited
  expect(told).toContain('operator')
  expect(found(told)).toEqual([])
  expect(found(metrics.text)).toEqual([])
  // The decision shows in the traces, by the commands that it sent to the nodes.
  expect(traces.spans.length).toBeGreaterThan(0)
  expect(found(traces.raw())).toEqual([])
})
