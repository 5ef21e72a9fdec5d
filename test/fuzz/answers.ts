/**
 * Mutated answers of the application. What must always hold: the client gets a well-formed answer, a retry gets the
 * same answer or none, what was answered as executed was executed once, and the proxy reports no failure.
 */
import { createServer } from 'node:net'
import type { Random } from '../../src/core/clock.ts'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { mutate, pick, restructure } from '../support/mutations.ts'
import { openWire, route, startProxy } from '../support/proxy.ts'

const ANSWERS = [
  'HTTP/1.1 201 Created\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n5\r\nhello\r\n0\r\nX-T: 1\r\n\r\n',
  'HTTP/1.1 204 No Content\r\nLocation: /x\r\n\r\n',
  'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello',
  'HTTP/1.1 200 OK\r\nTrailer: X-T\r\nContent-Length: 5\r\n\r\nhello',
]

export type AnswerReport = {
  readonly answers: number
  /** Of them, those that were recorded, and replayed to the retry. */
  readonly replayed: number
  readonly broken: readonly string[]
}

export async function fuzzAnswers(of: {
  readonly answers: number
  readonly atOnce: number
  readonly random: Random
}): Promise<AnswerReport> {
  const { random } = of
  const byKey = new Map<string, string>()
  const executions = new Map<string, number>()
  await using application = await startMutatedApplication(byKey, executions)
  await using proxy = await startProxy(application.origin, {
    routes: [route({ upstreamTimeoutMs: 2_000 })],
    keepEvents: false,
  })
  const broken: string[] = []
  let replayed = 0

  async function ask(key: string) {
    await using wire = await openWire(proxy.port)
    wire.send(
      `POST /things HTTP/1.1\r\nHost: a\r\nConnection: close\r\nIdempotency-Key: ${key}\r\nContent-Length: 2\r\n\r\n{}`,
    )
    await wire.closed
    const [head = '', ...rest] = wire.received().split('\r\n\r\n')
    return { head, body: rest.join('\r\n\r\n'), told: /^Idempotency-Status: (.*)$/m.exec(head)?.[1] }
  }

  async function one(index: number): Promise<void> {
    const key = `answer-${index}`
    const good = pick(random, ANSWERS)
    const answer = random.fraction() < 0.3 ? restructure(good, random) : mutate(good, random)
    byKey.set(key, answer)
    const [first, second] = [await ask(key), await ask(key)]
    const check = (holds: boolean, sentence: string): void => {
      if (!holds) broken.push(`${sentence}; the application answered ${JSON.stringify(answer)}`)
    }
    check(/^HTTP\/1\.1 [2-5]\d\d /.test(first.head), `the client got ${JSON.stringify(first.head)}`)
    for (const line of first.head.split('\r\n').slice(1))
      check(
        /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[^\r\n\0]*$/.test(line),
        `the client got the line ${JSON.stringify(line)}`,
      )
    if (second.told === 'replayed') {
      replayed += 1
      check(second.body === first.body && first.told === 'created', 'a replay is not the first answer')
    }
    if (first.told === 'created' || first.told === 'indeterminate')
      check(executions.get(key) === 1, `executed ${executions.get(key)} times`)
    byKey.delete(key)
    executions.delete(key)
  }

  for (let from = 0; from < of.answers && broken.length < 10; from += of.atOnce) {
    const count = Math.min(of.atOnce, of.answers - from)
    await Promise.all(Array.from({ length: count }, (_, index) => one(from + index)))
  }
  broken.push(...proxy.failures.map((failure) => `the proxy failed: ${String(failure)}`))
  await eventually('no request is left', () => proxy.proxy.inFlight() === 0)
  return { answers: of.answers, replayed, broken }
}

/** Answers each key with the bytes that are for it, and ends the connection. */
async function startMutatedApplication(byKey: Map<string, string>, executions: Map<string, number>) {
  return listening(
    createServer((socket) => {
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
    }),
  )
}
