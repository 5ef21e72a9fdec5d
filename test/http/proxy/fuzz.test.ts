/**
 * Mutated requests and mutated answers. What must hold for each of them, whatever it is: the proxy lives, nothing fails
 * inside it, what the application carried out is what was answered 2xx, and no answer is recorded that was not whole.
 */

import type { AddressInfo } from 'node:net'
import { createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { mutate, pick } from '../../support/mutations.ts'
import { openWire, route, startProxy } from '../../support/proxy.ts'
import { seededRandom, seedOfRun } from '../../support/seeded-random.ts'

const REQUESTS = Number(process.env.FENCEPOST_FUZZ_REQUESTS ?? 1_500)
const AT_ONCE = 300

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
]

test(`${REQUESTS} mutated requests: what was answered 2xx is what was carried out`, async () => {
  const random = seededRandom(seedOfRun('mutated requests'))
  await using application = await startApplication((_request, response) => {
    response.writeHead(201, { 'Content-Length': 2 }).end('ok')
  })
  await using proxy = await startProxy(application.origin, {
    routes: [route({ match: { methods: ['POST'] } })],
    limits: { headersTimeoutMs: 300, requestTimeoutMs: 300, keepAliveTimeoutMs: 50 },
  })
  let answered = 0
  const one = async (index: number): Promise<void> => {
    const bytes = mutate(pick(random, SEEDS)(`fuzz-${index}`), random)
    await using wire = await openWire(proxy.port)
    wire.send(bytes)
    // What is not whole is cut by its timeout, what is answered by the idle one; a WebSocket stays open.
    await Promise.race([wire.closed, eventually('a WebSocket', () => wire.received().includes(' 101 '))])
    const answers = [
      ...wire
        .received()
        .replaceAll('HTTP/1.1 100 Continue\r\n\r\n', '')
        .matchAll(/HTTP\/1\.1 (\d{3}) [^\r]*\r\n(.*?)\r\n\r\n/gs),
    ]
    for (const [, status, head = ''] of answers) {
      const carriedOut =
        (status === '201' || status === '101') && !head.includes('Idempotency-Status: replayed')
      if (carriedOut) answered += 1
    }
  }
  for (let from = 0; from < REQUESTS; from += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => one(from + index)))
  }
  expect(proxy.failures).toEqual([])
  expect(answered).toBe(application.seen.length)
  expect(application.seen.filter((seen) => seen.values('host').length !== 1)).toEqual([])
  expect((await proxy.post('alive')).status).toBe(201)
  await eventually('nothing is left', () => proxy.proxy.inFlight() === 0)
})

const ANSWERS = [
  'HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n',
  'HTTP/1.1 204 No Content\r\nLocation: /x\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello',
]

test(`${REQUESTS / 3} mutated answers: a client gets a well-formed answer, and a retry the same or none`, async () => {
  const random = seededRandom(seedOfRun('mutated answers'))
  const byKey = new Map<string, string>()
  const executions = new Map<string, number>()
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    let received = ''
    socket.on('error', () => {})
    socket.on('data', (part) => {
      received += part.toString('latin1')
      if (!received.endsWith('{}')) return
      const key = /\r\nidempotency-key: (\S+)/i.exec(received)?.[1] ?? ''
      received = ''
      executions.set(key, (executions.get(key) ?? 0) + 1)
      socket.end(Buffer.from(byKey.get(key) ?? '', 'latin1'))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  await using proxy = await startProxy(`http://127.0.0.1:${(server.address() as AddressInfo).port}`, {
    routes: [route({ upstreamTimeoutMs: 2_000 })],
  })
  const ask = async (key: string) => {
    await using wire = await openWire(proxy.port)
    wire.send(
      `POST /things HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: ${key}\r\nContent-Length: 2\r\n\r\n{}`,
    )
    await wire.closed
    const [head = '', ...rest] = wire.received().split('\r\n\r\n')
    return { head, body: rest.join('\r\n\r\n'), told: /^Idempotency-Status: (.*)$/m.exec(head)?.[1] }
  }
  const one = async (index: number): Promise<void> => {
    const key = `answer-${index}`
    byKey.set(key, mutate(pick(random, ANSWERS), random))
    const first = await ask(key)
    const second = await ask(key)
    expect(first.head).toMatch(/^HTTP\/1\.1 [2-5]\d\d /)
    for (const line of first.head.split('\r\n').slice(1))
      expect(line).toMatch(/^[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[^\r\n\0]*$/)
    if (second.told === 'replayed') expect([second.body, first.told]).toEqual([first.body, 'created'])
    if (first.told === 'created' || first.told === 'indeterminate') expect(executions.get(key)).toBe(1)
  }
  for (let from = 0; from < REQUESTS / 3; from += AT_ONCE) {
    await Promise.all(Array.from({ length: AT_ONCE }, (_, index) => one(from + index)))
  }
  expect(proxy.failures).toEqual([])
  await eventually('nothing is left', () => proxy.proxy.inFlight() === 0)
  for (const socket of sockets) socket.destroy()
  server.close()
})
