// The flood judges sidecars; here it is tested by tables, a real sidecar, and ones broken on purpose.
import { createServer, type RequestListener } from 'node:http'
import { json } from 'node:stream/consumers'
import { Server, ServerCredentials, type ServerDuplexStream, type sendUnaryData } from '@grpc/grpc-js'
import { describe, expect, test } from 'vitest'
import {
  AUTHORIZATION,
  type CheckResponse,
  EXTERNAL_PROCESSOR,
  type Phase,
  type ProcessingRequest,
  type ProcessingResponse,
} from '../../src/http/envoy/messages.ts'
import {
  type Copy,
  ENTRYPOINTS,
  finding,
  judge,
  judgeProxied,
  type Result,
  resultOf,
} from '../../src/probe/verdict.ts'
import { makeAuthority } from '../support/certificates.ts'
import { duringTests } from '../support/during-tests.ts'
import { freePort } from '../support/free-port.ts'
import { listening } from '../support/listening.ts'
import { startFencepost } from '../support/processes.ts'
import { seriesOf } from '../support/series.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const [G, n, x]: Copy[] = ['granted', 'refused', 'failed']

test.each<[copies: (Copy | undefined)[], result: Result]>([
  [[G, n, n], 'ok'],
  [[n, n, n], 'false_positive'],
  [[G, G, n], 'false_negative'],
  [[G, n, x], 'error'],
  [[n, n, x], 'error'],
  // Two holders are wrong, whatever became of the third.
  [[G, G, x], 'false_negative'],
])('%j: %s', (copies, result) => {
  expect(judge(copies.filter((copy) => copy !== undefined))).toBe(result)
})

test.each<[copies: (Copy | undefined)[], executions: number, bodies: number, result: Result]>([
  [[G, n, n], 1, 1, 'ok'],
  // The one that was executed may have been answered after another one's outcome.
  [[n, n, n], 1, 1, 'ok'],
  [[n, n, n], 0, 0, 'false_positive'],
  [[G, n, n], 2, 1, 'false_negative'],
  [[G, n, n], 1, 2, 'false_negative'],
  [[G, n, x], 1, 1, 'error'],
  [[G, n, x], 2, 1, 'false_negative'],
  // Created, but not by the application that counts.
  [[G, n, n], 0, 1, 'error'],
])('through the proxy, %j with %i executions and %i bodies: %s', (copies, executions, bodies, result) => {
  const known = copies.filter((copy) => copy !== undefined)
  expect(judgeProxied({ copies: known, executions, bodies })).toBe(result)
})

test.each<[results: Result[], result: Result]>([
  [['ok', 'ok', 'ok'], 'ok'],
  [['ok', 'error', 'ok'], 'error'],
  [['error', 'false_positive'], 'false_positive'],
  [['false_positive', 'false_negative', 'error'], 'false_negative'],
])('a volley with %j is %s: the worst counts', (results, result) => {
  expect(resultOf({ findings: results.map((one) => finding('one', one)) })).toBe(result)
})

type LastLine = Record<string, unknown>
const lastLine = (output: string) => JSON.parse(output.trim().split('\n').at(-1) ?? '') as LastLine

describe('fencepost probe --once', () => {
  test('exits with 0 against sidecars that keep the promise, and serves its metrics', async () => {
    await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded' })
    const args = ['--api', sidecar.api, '--rate', '200', '--timeout', '1m', '--json']
    await using once = startFencepost(['probe', ...args, '--once'])
    expect(await once.exited, once.output).toMatchObject({ code: 0 })
    expect(lastLine(once.output)).toMatchObject({
      volleys: 20,
      // Five copies, the completion, and the duplicate that is told its result.
      requests: 140,
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

  test('all entry points: copies, replays and other contents are judged, and refusals that are right count as right', async () => {
    const port = await freePort()
    await using sidecar = await startSidecar({
      ...PATIENT,
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: `http://127.0.0.1:${port}`,
      FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
      FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
    })
    await using probe = startFencepost([
      'probe',
      ...['--api', sidecar.api, '--fingerprint', '--gateway', sidecar.gateway],
      ...['--gateway-grpc', sidecar.gatewayGrpc],
      ...['--proxy', sidecar.proxy, '--application', `127.0.0.1:${port}`],
      ...['--rate', '12', '--copies', '3', '--timeout', '1m', '--quiet', '--prometheus', '127.0.0.1:0'],
    ])
    const [, url = ''] = await probe.line(/metrics on (\S+)$/)
    const right = (expected: string, entrypoint: string) =>
      `fencepost_probe_findings_total{entrypoint="${entrypoint}",expected="${expected}",result="ok"}`
    const wanted = ENTRYPOINTS.flatMap((entrypoint) => [
      right('one', entrypoint),
      right('replay', entrypoint),
      // A reserved value has no content.
      ...(entrypoint === 'api' ? [] : [right('mismatch', entrypoint)]),
    ])
    const series = await probe.until(
      'a right answer of each kind',
      async () => {
        const seen = seriesOf(await (await fetch(url)).text())
        return wanted.every((name) => (seen.get(name) ?? 0) > 0) ? seen : undefined
      },
      { withinMs: 50_000 },
    )
    const others = [...series].filter(([name]) => /findings_total.*result="(?!ok)/.test(name))
    expect(
      others.filter(([, count]) => count !== 0),
      probe.output,
    ).toEqual([])
    // Its own tenant, and nothing was written: `--quiet` is silent while all is well.
    expect(await probe.end()).toMatchObject({ code: 0 })
    expect(probe.output).not.toContain('"result"')
    expect(sidecar.process.output).toMatch(/"tenant":"fencepost-probe"/)
  })

  test('copies that all lost their race prove nothing where the next one is granted', async () => {
    const isSixth = sixth()
    await using server = await serverOf(async (request, response) => {
      const { reserved_value: value } = (await json(request)) as { reserved_value?: string }
      const granted = value !== undefined && isSixth(value)
      response.writeHead(granted ? 201 : 409, { 'content-type': 'application/json' })
      response.end(JSON.stringify({ reservation_id: 'r', fencing_token: 1 }))
    })
    const args = ['probe', '--api', server.url, '--rate', '500', '--timeout', '1m', '--once']
    await using probe = startFencepost(args)
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(probe.output).toMatch(/0 false positives, 0 false negatives, 20 errors/)
    expect(probe.output).toContain('no copy was granted before its budget ended, and the next one was')
  })

  test.each([
    ['grants every copy', 201, /20 false negatives/],
    ['refuses every copy', 409, /20 false positives/],
    ['is broken', 500, /20 errors/],
  ])('ends with 1 against one that %s', async (_, status, says) => {
    await using server = await serverOf((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(status, { 'content-type': 'application/json' })
        response.end(JSON.stringify({ reservation_id: 'r', fencing_token: 1 }))
      })
    })
    await using probe = startFencepost([
      'probe',
      '--api',
      server.url,
      '--rate',
      '500',
      '--timeout',
      '1m',
      '--once',
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(probe.output).toMatch(says)
  })

  test.each<[string, (application: string) => RequestListener, count: LastLine]>([
    [
      'executes every copy',
      (application) => async (request, response) => {
        request.resume()
        const headers = { 'idempotency-key': String(request.headers['idempotency-key']) }
        try {
          const answer = await fetch(application, { method: 'POST', headers })
          response.writeHead(answer.status, { 'idempotency-status': 'created' }).end(await answer.text())
        } catch {
          // The probe, and its application with it, ended.
          response.destroy()
        }
      },
      { false_negative: 20 },
    ],
    [
      'has another application behind it',
      () => (request, response) => {
        request.resume()
        response.writeHead(201, { 'idempotency-status': 'created' }).end('another one')
      },
      { error: 20 },
    ],
    [
      'answers as if every request had been there before',
      () => (request, response) => {
        request.resume()
        response.writeHead(409).end()
      },
      { false_positive: 20 },
    ],
    [
      'refuses all copies, because their race took too long, and executes the next one',
      (application) => {
        const isSixth = sixth()
        return async (request, response) => {
          request.resume()
          const headers = { 'idempotency-key': String(request.headers['idempotency-key']) }
          if (!isSixth(headers['idempotency-key'])) response.writeHead(409).end()
          else {
            const answer = await fetch(application, { method: 'POST', headers })
            response.writeHead(answer.status, { 'idempotency-status': 'created' }).end(await answer.text())
          }
        }
      },
      { error: 20 },
    ],
  ])('ends with 1 against a proxy that %s', async (_, broken, counts) => {
    const port = await freePort()
    await using server = await serverOf(broken(`http://127.0.0.1:${port}`))
    await using probe = startFencepost([
      'probe',
      ...['--proxy', server.url, '--application', `127.0.0.1:${port}`],
      ...['--rate', '100', '--timeout', '1m', '--json', '--once'],
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(lastLine(probe.output)).toMatchObject({ volleys: 20, ok: 0, ...counts })
  })

  test.each<[string, RequestListener, count: LastLine, says: RegExp]>([
    [
      'grants every check',
      (_, response) => void response.writeHead(200, { 'fencepost-reservation-id': 'r' }).end(),
      { false_negative: 40 },
      /./,
    ],
    [
      'does not protect the path',
      (_, response) => void response.writeHead(200).end(),
      { error: 40 },
      /no route of that sidecar protects POST \/fencepost-probe/,
    ],
    ['grants a check once and never again, whatever its content', grantsOnce, { false_positive: 40 }, /409/],
    [
      'refuses all copies of a check, because their race took too long, and grants the next one',
      grantsTheSixth(),
      { error: 40 },
      /no copy was granted before its budget ended, and the next one was/,
    ],
  ])('ends with 1 against a gateway listener that %s', async (_, broken, counts, says) => {
    await using server = await serverOf(broken)
    await using probe = startFencepost([
      'probe',
      ...['--gateway', server.url, '--rate', '500', '--timeout', '1m', '--json', '--once'],
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(lastLine(probe.output)).toMatchObject({ volleys: 40, ok: 0, ...counts })
    expect(probe.output).toMatch(says)
  })

  test('ends with 1 where two requests have one fingerprint, and says which answer was not right', async () => {
    await using server = await serverOf((request, response) => {
      request.resume()
      const held = request.url === '/v1/fingerprint' ? { hash: 'a'.repeat(64) } : {}
      response
        .writeHead(request.url === '/v1/fingerprint' ? 200 : 500)
        .end(JSON.stringify({ ...held, code: 'broken' }))
    })
    await using probe = startFencepost([
      'probe',
      ...['--api', server.url, '--fingerprint', '--rate', '500', '--timeout', '1m', '--quiet', '--once'],
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(probe.output).toContain(
      '"entrypoint":"fingerprint","expected":"mismatch","result":"false_positive","detail":"another amount has the same fingerprint"',
    )
    expect(probe.output).toMatch(/"entrypoint":"api",.*answered 500 broken/)
  })
})

/** Bug: gRPC left out the authorities of NODE_EXTRA_CA_CERTS, which all other entry points take. */
test('fencepost probe over TLS verifies listeners by NODE_EXTRA_CA_CERTS, over HTTP and gRPC', async () => {
  using authority = makeAuthority()
  const { certFile, keyFile } = authority.sign('gateway')
  await using sidecar = await startSidecar({
    ...PATIENT,
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
    FENCEPOST_TLS_LISTENERS: 'gateway',
    FENCEPOST_TLS_CERT_FILE: certFile,
    FENCEPOST_TLS_KEY_FILE: keyFile,
  })
  const named = (address: string) => `https://localhost:${new URL(address).port}`
  const args = ['--gateway', named(sidecar.gateway), '--gateway-grpc', named(sidecar.gatewayGrpc)]
  await using probe = startFencepost(
    ['probe', ...args, ...['--rate', '4', '--copies', '2', '--timeout', '1m', '--prometheus', '127.0.0.1:0']],
    { env: { NODE_EXTRA_CA_CERTS: authority.caFile } },
  )
  const [, url = ''] = await probe.line(/metrics on (\S+)$/)
  const wanted = ['http_check', 'ext_authz', 'ext_authz_grpc', 'ext_proc'].map(
    (entrypoint) => `fencepost_probe_findings_total{entrypoint="${entrypoint}",expected="one",result="ok"}`,
  )
  await probe.until(
    'a right answer at each entry point',
    async () => {
      const seen = seriesOf(await (await fetch(url)).text())
      return wanted.every((name) => (seen.get(name) ?? 0) > 0)
    },
    { withinMs: 50_000 },
  )
  expect(await probe.end()).toMatchObject({ code: 0 })
})

describe('fencepost probe --once and a listener for Envoy', () => {
  /** Its checks over HTTP are right. */
  const reports = duringTests(() =>
    startSidecar({
      ...PATIENT,
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
    }),
  )

  test.each<[string, BrokenEnvoy, count: LastLine, says: RegExp]>([
    [
      'grants every check and lets every request go on',
      {
        check: { status: { code: 0 }, okResponse: { headers: [RESERVED], headersToRemove: [] } },
        process: (phase) => ({ [phase]: { response: { headerMutation: CREATED } } }),
      },
      { ok: 40, false_negative: 40 },
      /./,
    ],
    [
      'protects nothing',
      {
        check: { status: { code: 0 }, okResponse: { headers: [], headersToRemove: [] } },
        process: () => undefined,
      },
      { ok: 40, error: 20, false_negative: 20 },
      // The report has the last finding, which is one of a check or of a request that went on.
      /no route of (that sidecar|it) protects/,
    ],
    [
      'refuses everything as a duplicate',
      {
        check: {
          status: { code: 7 },
          deniedResponse: { status: { code: 409 }, headers: [], body: '{"code":"reservation-duplicate"}' },
        },
        process: () => ({
          immediateResponse: {
            status: { code: 409 },
            headers: { setHeaders: [], removeHeaders: [] },
            body: Buffer.alloc(0),
            details: '',
          },
        }),
      },
      { ok: 40, false_positive: 40 },
      /./,
    ],
  ])('exits with 1 against one that %s', async (_, broken, counts, says) => {
    await using envoy = await brokenEnvoy(broken)
    await using probe = startFencepost([
      'probe',
      ...['--gateway', reports.gateway, '--gateway-grpc', envoy.url],
      ...['--rate', '500', '--timeout', '1m', '--json', '--once'],
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(lastLine(probe.output)).toMatchObject({ volleys: 80, ...counts })
    expect(probe.output).toMatch(says)
  })

  test('exits with 1 where there is none', async () => {
    await using probe = startFencepost([
      'probe',
      ...['--gateway', reports.gateway, '--gateway-grpc', `http://127.0.0.1:${await freePort()}`],
      ...['--rate', '500', '--timeout', '1m', '--json', '--once'],
    ])
    expect(await probe.exited, probe.output).toMatchObject({ code: 1 })
    expect(lastLine(probe.output)).toMatchObject({ volleys: 80, ok: 40, error: 40 })
    expect(probe.output).toMatch(/UNAVAILABLE/)
  })
})

test.each([
  [['--proxy', 'http://127.0.0.1:8080'], /--proxy and --application go together/],
  [['--application', '127.0.0.1:0'], /--proxy and --application go together/],
  [['--path', 'no-slash'], /--path no-slash is not accepted/],
  [['--gateway', 'ftp://a'], /--gateway ftp:\/\/a is not accepted/],
  [['--gateway-grpc', 'http://a'], /--gateway-grpc needs --gateway/],
  [
    ['--gateway', 'https://a', '--gateway-grpc', 'https://10.0.0.1:1'],
    /--gateway-grpc https:\/\/10\.0\.0\.1:1 is not accepted; over TLS accepted is the name/,
  ],
  [['--gateway', 'https://a', '--gateway-grpc', 'https://[::1]:1'], /accepted is the name/],
  [['--gateway', 'http://a', '--gateway-grpc', 'a:1'], /--gateway-grpc a:1 is not accepted/],
  [['--timeout', 'soon'], /--timeout soon is not accepted/],
  [['--copies', '1'], /--copies a whole number from 2 up/],
])('fencepost probe %j is refused with a sentence', async (args, says) => {
  await using probe = startFencepost(['probe', ...args])
  expect(await probe.exited).toMatchObject({ code: 64 })
  expect(probe.output).toMatch(says)
})

/** Whether a key is asked for the sixth time: five copies were sent at once. */
function sixth(): (key: string) => boolean {
  const times = new Map<string, number>()
  return (key) => {
    times.set(key, (times.get(key) ?? 0) + 1)
    return times.get(key) === 6
  }
}

function grantsTheSixth(): RequestListener {
  const isSixth = sixth()
  return (request, response) => {
    request.resume()
    if (request.url?.startsWith('/v1/gateway/release')) response.writeHead(204).end()
    else if (isSixth(`${request.url} ${request.headers['idempotency-key']}`))
      response.writeHead(200, { 'fencepost-reservation-id': 'r' }).end()
    else response.writeHead(409).end()
  }
}

/** A gateway listener with a memory for keys, and none for their content. */
function grantsOnce(...[request, response]: Parameters<RequestListener>): void {
  request.resume()
  if (request.url === '/v1/gateway/complete') {
    response.writeHead(204).end()
    return
  }
  const key = String(request.headers['idempotency-key'])
  if (known.has(key)) response.writeHead(409).end('{"code":"reservation-duplicate"}')
  else response.writeHead(200, { 'fencepost-reservation-id': 'r' }).end()
  known.add(key)
}
const known = new Set<string>()

type BrokenEnvoy = {
  readonly check: CheckResponse
  /** Undefined: it ends the stream, and Envoy goes on without it. */
  readonly process: (phase: Phase) => ProcessingResponse | undefined
}
const RESERVED = { header: { key: 'fencepost-reservation-id', value: 'r' } }
const CREATED = {
  setHeaders: [{ header: { key: 'idempotency-status', rawValue: Buffer.from('created') } }],
  removeHeaders: [],
}

/** A listener for Envoy that keeps no promise. */
async function brokenEnvoy({
  check,
  process,
}: BrokenEnvoy): Promise<AsyncDisposable & { readonly url: string }> {
  const server = new Server()
  server.addService(AUTHORIZATION, {
    check: (_: unknown, done: sendUnaryData<CheckResponse>) => done(null, check),
  })
  server.addService(EXTERNAL_PROCESSOR, {
    process: (call: ServerDuplexStream<ProcessingRequest, ProcessingResponse>) => {
      call.on('data', (message: ProcessingRequest) => {
        const reply = process(message.request as Phase)
        if (reply === undefined) call.end()
        else call.write(reply)
      })
      call.on('end', () => call.end())
    },
  })
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    ),
  )
  return { url: `http://127.0.0.1:${port}`, [Symbol.asyncDispose]: async () => server.forceShutdown() }
}

async function serverOf(listener: RequestListener): Promise<AsyncDisposable & { readonly url: string }> {
  const server = createServer(listener)
  const at = await listening(server)
  return {
    url: at.origin,
    [Symbol.asyncDispose]: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}
