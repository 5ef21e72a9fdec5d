/**
 * `fencepost-saga serve`: the handler for people and their tools on one listener, the gauges for Prometheus on another.
 *
 * Owns that tokens never cross a network in clear text, and the limits of both listeners. The file of tokens is read at each call: a change
 * is in force at once, and one that is not accepted changes nothing.
 */
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createSecureContext } from 'node:tls'
import { parseOperatorTokens } from '../core.ts'
import type { SagaKit } from '../kit.ts'
import { sagaGauges } from '../operations/gauges.ts'
import { sagaHandler } from '../operations/handler.ts'
import { operatorOf } from '../operations/operators.ts'
import { type Given, type Io, UsageError } from './arguments.ts'

/** People and their tools, not traffic: beyond it something runs away. */
const connectionsMax = 64
const times = { headersTimeout: 10_000, requestTimeout: 30_000, keepAliveTimeout: 5_000 }

export async function serve(kit: SagaKit, given: Given, io: Io): Promise<number> {
  const at = addressIn(given.listen ?? '127.0.0.1:8090', '--listen')
  const metricsAt = addressIn(given['metrics-listen'] ?? '127.0.0.1:9091', '--metrics-listen')
  const tls = certificateIn(given, io)
  if (tls === undefined && !isLoopback(at.host))
    throw new UsageError(
      `--listen ${at.host}:${at.port} would take tokens in clear text from beyond this machine; write 127.0.0.1:${at.port}, or give --tls-cert and --tls-key`,
    )
  const tokens = tokensIn(given, io)
  const runbookUrl = given['runbook-url']
  const handler = sagaHandler(kit, {
    operator: (request) => operatorOf(request, tokens()),
    ...(typeof runbookUrl === 'string' ? { runbookUrl } : {}),
  })
  const gauges = sagaGauges(kit)
  const page: RequestListener = (request, response) => void handler(request, response)
  const servers: Server[] = []
  try {
    const own = tls === undefined ? createServer(times, page) : createTlsServer({ ...times, ...tls }, page)
    const metrics = createServer(
      times,
      measured(() => gauges.text()),
    )
    servers.push(own, metrics)
    const port = await listening(own, at)
    const metricsPort = await listening(metrics, metricsAt)
    const scheme = tls === undefined ? 'http' : 'https'
    io.stdout.write(
      `sagas on ${scheme}://${hostOf(at)}:${port}/, metrics on http://${hostOf(metricsAt)}:${metricsPort}/metrics\n`,
    )
    await io.stopped()
    return 0
  } finally {
    gauges[Symbol.dispose]()
    await Promise.all(servers.map(closed))
  }
}

function measured(text: () => string): RequestListener {
  return ({ method, url = '' }, response) => {
    const found: Readonly<Record<string, () => string>> = { '/metrics': text, '/healthz': () => 'ok\n' }
    const path = url.replace(/\?.*$/, '')
    const answer = method === 'GET' && Object.hasOwn(found, path) ? found[path] : undefined
    response
      .writeHead(answer === undefined ? 404 : 200, {
        'Content-Type': 'text/plain; version=0.0.4; charset=utf-8',
      })
      .end(answer?.())
  }
}

/** @throws UsageError where it is not accepted at the start */
function tokensIn({ operators }: Given, io: Io) {
  if (typeof operators !== 'string')
    throw new UsageError('serve takes --operators: a file with who may call, one a line: name, role, token')
  const read = () => {
    try {
      return parseOperatorTokens(io.readFile(operators))
    } catch (error) {
      return { kind: 'refused', reason: (error as Error).message } as const
    }
  }
  const first = read()
  if (first.kind === 'refused') throw new UsageError(`${operators} is not accepted: ${first.reason}`)
  let { tokens } = first
  let told = ''
  return () => {
    const now = read()
    if (now.kind === 'tokens') {
      tokens = now.tokens
      told = ''
    } else if (told !== now.reason) {
      told = now.reason
      io.stderr.write(`${operators} is not accepted: ${now.reason}; the tokens of before stay\n`)
    }
    return tokens
  }
}

function certificateIn(given: Given, io: Io) {
  const [cert, key] = [given['tls-cert'], given['tls-key']]
  if (cert === undefined && key === undefined) return undefined
  if (typeof cert !== 'string' || typeof key !== 'string')
    throw new UsageError('--tls-cert and --tls-key are given together')
  const tls = { cert: io.readFile(cert), key: io.readFile(key), minVersion: 'TLSv1.2' } as const
  try {
    createSecureContext(tls)
  } catch (error) {
    throw new UsageError(
      `--tls-cert ${cert} and --tls-key ${key} are not accepted: ${(error as Error).message}`,
    )
  }
  return tls
}

type Address = { readonly host: string; readonly port: number }

function addressIn(given: string | boolean, option: string): Address {
  const [, v6, name, port = ''] =
    /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(String(given)) ?? []
  const host = v6 ?? name
  if (host === undefined || Number(port) > 65_535)
    throw new UsageError(`${option} ${String(given)} is not accepted; accepted is host:port`)
  return { host, port: Number(port) }
}

const hostOf = ({ host }: Address) => (host.includes(':') ? `[${host}]` : host)

function listening(server: Server, { host, port }: Address): Promise<number> {
  server.maxConnections = connectionsMax
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) =>
      reject(new UsageError(`${host}:${port} can't be listened on: ${error.code ?? error.message}`)),
    )
    server.listen(port, host, () => resolve((server.address() as AddressInfo).port))
  })
}

/** Answers under way are finished. */
function closed(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve())
    server.closeIdleConnections()
  })
}

/** With these the driver refuses a server that does not encrypt; `prefer` will not do so in its next version. */
const encryptedModes: readonly unknown[] = ['require', 'verify-ca', 'verify-full']

export function isLoopback(host: string): boolean {
  return /^(localhost|::1|127\.\d{1,3}\.\d{1,3}\.\d{1,3})$/i.test(host)
}

/**
 * Whether a database is spoken to in clear text beyond this machine, of what its URL says; what can't be judged is not safe. Resolves no
 * name, and can't see what a mesh, a tunnel or a forwarded port does with the bytes. Where the driver (pg) connects with this text: `host`
 * and `sslmode` are parameters or parts of the URL, of several the last is taken, and a host that begins with a slash is the folder of a
 * Unix socket.
 */
export function isSafeDatabase(text: string): boolean {
  // A URL with a user and no host, for a socket, is none to the standard.
  const url = [text, text.replace('@/', '@none/')].find((one) => URL.canParse(one))
  if (url === undefined) return false
  const { hostname, searchParams } = new URL(url)
  if (encryptedModes.includes(searchParams.getAll('sslmode').at(-1))) return true
  const host = searchParams.getAll('host').at(-1) || decoded(hostname.replace(/^\[(.*)\]$/, '$1'))
  return host.startsWith('/') || isLoopback(host)
}

/** What can't be decoded is no name that is known to be local. */
function decoded(host: string): string {
  try {
    return decodeURIComponent(host)
  } catch {
    return ''
  }
}
