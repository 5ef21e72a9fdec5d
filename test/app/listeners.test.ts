/**
 * The listeners as operators configure them: TLS with and without certificates of clients, renewed while the sidecar
 * runs; Unix sockets; and a token that is changed by changing its file. Real processes on embedded nodes.
 */
import { copyFileSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type IncomingMessage, request as plainRequest, type RequestOptions } from 'node:http'
import { request as tlsRequest } from 'node:https'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TLSSocket } from 'node:tls'
import { expect, test } from 'vitest'
import { makeAuthority } from '../support/certificates.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { between, startSidecar } from '../support/sidecar.ts'

type Got = { readonly status: number; readonly text: string; readonly server: string | undefined }

function ask(url: string, options: RequestOptions & { ca?: string; cert?: string; key?: string } = {}) {
  return new Promise<Got>((resolve, reject) => {
    const request = url.startsWith('https') ? tlsRequest : plainRequest
    const sent = request(url, { agent: false, ...options }, (response: IncomingMessage) => {
      let text = ''
      const peer =
        'encrypted' in response.socket ? (response.socket as TLSSocket).getPeerCertificate() : undefined
      response.setEncoding('utf8').on('data', (part) => {
        text += part
      })
      response.on('end', () => {
        const name = peer?.subject?.CN
        resolve({ status: response.statusCode ?? 0, text, server: Array.isArray(name) ? name[0] : name })
      })
      response.on('error', reject)
    })
    sent.on('error', reject)
    sent.end()
  })
}

test('the listeners speak TLS, require client certificates, and load a renewed one without a restart', async () => {
  using authority = makeAuthority()
  using strangers = makeAuthority('another authority')
  const server = authority.sign('first')
  const client = authority.sign('client')
  const stranger = strangers.sign('stranger')
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    FENCEPOST_TLS_LISTENERS: 'proxy,api,gateway,admin',
    FENCEPOST_TLS_CERT_FILE: server.certFile,
    FENCEPOST_TLS_KEY_FILE: server.keyFile,
    FENCEPOST_TLS_CLIENT_CA_FILE: authority.caFile,
  })
  const trusting = { ca: authority.ca() }
  const known = { ...trusting, cert: client.cert(), key: client.key() }
  const check = `${sidecar.gateway}/v1/gateway/ext-authz/things`
  for (const url of [`${sidecar.proxy}/x`, `${sidecar.api}/openapi.json`, check, `${sidecar.admin}/livez`]) {
    expect(url).toMatch(/^https:/)
    expect(await ask(url, known)).toMatchObject({ status: url.endsWith('/x') ? 201 : 200, server: 'first' })
    await expect(ask(url, trusting)).rejects.toThrow()
    await expect(ask(url, { ...trusting, cert: stranger.cert(), key: stranger.key() })).rejects.toThrow()
    await expect(ask(url.replace('https:', 'http:'))).rejects.toThrow()
  }
  expect(application.executions.map(({ headers }) => headers['x-forwarded-proto'])).toEqual(['https'])

  // Incomplete: the new certificate with the old key is not taken.
  const second = authority.sign('second')
  copyFileSync(second.certFile, server.certFile)
  await sidecar.process.line(/what was before stays in force/)
  expect(await ask(`${sidecar.proxy}/x`, known)).toMatchObject({ server: 'first' })
  copyFileSync(second.keyFile, server.keyFile)
  await eventually('the new certificate', async () => {
    const { server: shown } = await ask(`${sidecar.proxy}/x`, known)
    return shown === 'second'
  })
  await expect(ask(`${sidecar.proxy}/x`, trusting)).rejects.toThrow()
  expect(await ask(`${sidecar.admin}/livez`, known)).toMatchObject({ server: 'second' })

  // Garbage instead of a handshake, or an aborted handshake, ends no other connection.
  const socket = connect(Number(new URL(sidecar.proxy).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
  await new Promise((resolve) => socket.once('close', resolve))
  expect((await ask(`${sidecar.proxy}/x`, known)).status).toBe(201)
})

test('a missing handshake is cut after the time for heads', async () => {
  using authority = makeAuthority()
  const server = authority.sign('server')
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_TLS_CERT_FILE: server.certFile,
    FENCEPOST_TLS_KEY_FILE: server.keyFile,
    FENCEPOST_HEADERS_TIMEOUT: '300ms',
  })
  const silent = connect(Number(new URL(sidecar.proxy).port), '127.0.0.1')
  silent.on('error', () => {}).resume()
  await new Promise((resolve) => silent.once('close', resolve))
  expect(application.executions).toEqual([])
})

test('certificate and key that do not belong together refuse the start', async () => {
  using authority = makeAuthority()
  const started = startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_UPSTREAM: 'http://127.0.0.1:9',
    FENCEPOST_TLS_CERT_FILE: authority.sign('one').certFile,
    FENCEPOST_TLS_KEY_FILE: authority.sign('other').keyFile,
  })
  await expect(started).rejects.toThrow(
    /FENCEPOST_TLS_CERT_FILE: key of the certificate .* does not hold: they don't belong together/,
  )
})

test('all listeners open on Unix sockets, and a token is changed by changing its file', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-sockets-'))
  try {
    const tokenFile = join(folder, 'token')
    writeFileSync(tokenFile, 'first-token\n')
    await using application = await startCountingApplication()
    await using sidecar = await startSidecar({
      ...between('embedded', application),
      FENCEPOST_PROXY_LISTEN: `unix:${folder}/proxy.sock`,
      FENCEPOST_API_LISTEN: `unix:${folder}/api.sock`,
      FENCEPOST_ADMIN_LISTEN: `unix:${folder}/admin.sock`,
      FENCEPOST_API_TOKEN_FILE: tokenFile,
    })
    const on = (name: string) => ({ socketPath: `${folder}/${name}.sock` })
    expect(await ask('http://sidecar/livez', on('admin'))).toMatchObject({ status: 200 })
    expect(await ask('http://sidecar/x', on('proxy'))).toMatchObject({ status: 201 })
    const withToken = async (token: string) => {
      const headers = { authorization: `Bearer ${token}` }
      return (await ask('http://sidecar/v1/reservations?value=v', { ...on('api'), headers })).status
    }
    expect([await withToken('first-token'), await withToken('second-token')]).toEqual([200, 401])
    // Both for a while: no caller is locked out while callers learn the new one.
    writeFileSync(tokenFile, 'second-token\nfirst-token\n')
    await eventually('the second token', async () => (await withToken('second-token')) === 200)
    expect(await withToken('first-token')).toBe(200)
    writeFileSync(tokenFile, 'second-token\n')
    await eventually('the end of the first token', async () => (await withToken('first-token')) === 401)
    // An empty file changes nothing: the previous tokens stay.
    writeFileSync(tokenFile, '')
    expect(await withToken('second-token')).toBe(200)
    // Nor does one that is no text, and the log says so.
    writeFileSync(tokenFile, '\ufeffthird-token', 'utf16le')
    await sidecar.process.line(/it is not text in UTF-8, but in UTF-16.*what was before stays in force/)
    expect(await withToken('second-token')).toBe(200)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

// Bug: the file of its socket kept a sidecar that had been killed (for its memory, say) from starting again, in the same pod for ever.
test('a socket file that a killed sidecar left behind is replaced, one that is in use is not', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-left-'))
  const at = (name: string) => join(folder, `${name}.sock`)
  const settings = {
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_API_LISTEN: `unix:${at('api')}`,
    FENCEPOST_ADMIN_LISTEN: `unix:${at('admin')}`,
  }
  try {
    await using killed = await startSidecar(settings)
    killed.process.signal('SIGKILL')
    await killed.process.exited
    expect([at('api'), at('admin')].map((path) => existsSync(path))).toEqual([true, true])
    await using _again = await startSidecar(settings)
    expect(await ask('http://sidecar/livez', { socketPath: at('admin') })).toMatchObject({ status: 200 })
    await expect(startSidecar(settings)).rejects.toThrow(/admin listener could not be opened: .*EADDRINUSE/)
    expect(await ask('http://sidecar/livez', { socketPath: at('admin') })).toMatchObject({ status: 200 })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a file that is no socket is not removed', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-left-'))
  const file = join(folder, 'notes.txt')
  writeFileSync(file, 'somebody’s')
  try {
    const started = startSidecar({ FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_API_LISTEN: `unix:${file}` })
    await expect(started).rejects.toThrow(/api listener could not be opened: .*EADDRINUSE/)
    expect(readFileSync(file, 'utf8')).toBe('somebody’s')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

// Bug: on a listener for both families the application was told that an IPv4 client is ::ffff:127.0.0.1.
test('on [::] all listeners are reached over IPv6 and IPv4, and the application is told the address as it is', async () => {
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    FENCEPOST_PROXY_LISTEN: '[::]:0',
    FENCEPOST_ADMIN_LISTEN: '[::]:0',
  })
  for (const host of ['127.0.0.1', '[::1]']) {
    const on = (listener: string) => `http://${host}:${new URL(listener).port}`
    expect(await ask(`${on(sidecar.admin)}/startupz`)).toMatchObject({ status: 200 })
    expect(await ask(`${on(sidecar.proxy)}/x`)).toMatchObject({ status: 201 })
  }
  expect(application.executions.map(({ headers }) => headers['x-forwarded-for'])).toEqual([
    '127.0.0.1',
    '::1',
  ])
})
