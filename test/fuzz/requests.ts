/**
 * Mutated requests of clients. What must always hold: the proxy lives, it reports no failure, the requests
 * that the application counted are exactly those that were answered 2xx from it, and what it received is one request
 * after another to a reader that follows RFC 9112 by the letter.
 */
import type { Random } from '../../src/core/clock.ts'
import { eventually } from '../support/eventually.ts'
import { mutate, pick, restructure } from '../support/mutations.ts'
import { openWire, route, startProxy } from '../support/proxy.ts'
import { startStrictApplication } from '../support/strict-application.ts'

const SEEDS: readonly ((key: string) => string)[] = [
  (key) =>
    `POST /things HTTP/1.1\r\nHost: a\r\nIdempotency-Key: ${key}\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"a": 12}`,
  (key) =>
    `POST /things?b=1 HTTP/1.1\r\nHost: a\r\nIdempotency-Key: "${key}"\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n5;x=y\r\n: 12}\r\n0\r\nX-T: 1\r\n\r\n`,
  (key) =>
    `POST http://a/things HTTP/1.1\r\nHost: a\r\nConnection: close, X-Drop\r\nX-Drop: 1\r\nIdempotency-Key: ${key}\r\nContent-Length: 0\r\n\r\n`,
  (key) =>
    `PUT /x/${key} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbodyGET /y/${key} HTTP/1.1\r\nHost: a\r\n\r\n`,
  () =>
    `POST /form HTTP/1.0\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=1&b=2`,
  (key) =>
    `POST /things HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nX-Tenant-Id: t\r\nX-Api-Version: v\r\nIdempotency-Key: ${key}\r\nContent-Length: 2\r\n\r\n{}`,
]

export type RequestReport = {
  readonly requests: number
  /** Requests that reached the application; 0 means that the run tested no request. */
  readonly executed: number
  /** Sentences; empty where everything held. */
  readonly broken: readonly string[]
}

export async function fuzzRequests(of: {
  readonly requests: number
  readonly atOnce: number
  readonly random: Random
}): Promise<RequestReport> {
  const { random } = of
  await using application = await startStrictApplication()
  await using proxy = await startProxy(application.origin, {
    routes: [route({ match: { methods: ['POST'] } })],
    limits: { headersTimeoutMs: 800, requestTimeoutMs: 800, keepAliveTimeoutMs: 50 },
    keepEvents: false,
  })
  const broken: string[] = []
  let answered = 0

  async function one(index: number): Promise<void> {
    const seed = pick(random, SEEDS)(`fuzz-${index}`)
    const bytes = random.fraction() < 0.3 ? restructure(seed, random) : mutate(seed, random)
    await using wire = await openWire(proxy.port)
    wire.send(bytes)
    // Incomplete requests are cut by their timeout, answered ones by the idle timeout.
    await wire.closed
    answered += executedIn(wire.received())
  }

  for (let from = 0; from < of.requests; from += of.atOnce) {
    const count = Math.min(of.atOnce, of.requests - from)
    const before = answered - application.requests
    await Promise.all(Array.from({ length: count }, (_, index) => one(from + index)))
    // After each batch, so that a failure names the few hundred requests around it.
    if (answered - application.requests !== before)
      broken.push(
        `of requests ${from} to ${from + count}, ${answered} were answered 2xx and ${application.requests} executed`,
      )
    if (broken.length > 10) break
  }
  broken.push(...application.faults.map((fault) => `the application received ${fault}`))
  broken.push(...proxy.failures.map((failure) => `the proxy failed: ${String(failure)}`))
  const alive = await proxy.post('alive')
  if (alive.status !== 201) broken.push(`a good request is answered ${alive.status}`)
  await alive.arrayBuffer()
  await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
  return { requests: of.requests, executed: answered, broken }
}

/** Answers 201 that are not replays. */
function executedIn(received: string): number {
  const answers = received
    .replaceAll('HTTP/1.1 100 Continue\r\n\r\n', '')
    .matchAll(/HTTP\/1\.1 (\d{3}) [^\r]*\r\n(.*?)\r\n\r\n/gs)
  return [...answers].filter(
    ([, status, head = '']) => status === '201' && !head.includes('Idempotency-Status: replayed'),
  ).length
}
