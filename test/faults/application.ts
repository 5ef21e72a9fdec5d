/**
 * The application of a fault run, as a process of its own: it logs each execution before its answer, in a file that
 * outlives it, and misbehaves as the request says.
 *
 *     node application.ts LOG      prints its port; each line of LOG is one start or end of one execution
 *
 * A request's body names a script, `"script":["crash"]`: what its first, second, … execution does; after the script it
 * answers well. The count comes from the log, so it survives a crash.
 */

import { closeSync, fdatasyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { TestProcess } from '../support/processes.ts'
import { Books } from './books.ts'
import type { Execution } from './history.ts'

export type Mode =
  | 'ok'
  | `slow:${number}`
  | `status:${number}`
  | 'crash-before'
  /** The connection breaks before it is executed. */
  | 'drop'
  | 'crash-after'
  | 'half-body'
  | 'reset'
  | 'wrong-length'
  | 'trailers'
  | 'huge-head'
  | 'endless'

export type Demand = { readonly key: string; readonly content: string; readonly script: readonly Mode[] }

type Line =
  | ({ readonly at: 'start'; readonly lock: string } & Omit<Execution, 'endMs' | 'answer'>)
  /** It ended before the execution: counted, so that the next one goes on in the script. */
  | { readonly at: 'crash'; readonly tenant: string; readonly key: string }
  | {
      readonly at: 'end'
      readonly lock: string
      readonly op: number
      readonly token: number
      readonly endMs: number
    }
  /** It said that nothing up to this token was executed, and keeps to that. */
  | { readonly at: 'renounced'; readonly lock: string }

export type FaultApplication = AsyncDisposable & {
  readonly url: string
  readonly process: TestProcess
  executions(): readonly Execution[]
  /** After a crash: on the same port. */
  restart(): Promise<void>
}

export async function startFaultApplication(log: string): Promise<FaultApplication> {
  const start = async (port: number) => {
    const child = new TestProcess(process.execPath, [fileURLToPath(import.meta.url), log, String(port)], {
      name: 'the application',
    })
    const [, at] = await child.line(/^listening on (\d+)$/)
    return { child, port: Number(at) }
  }
  let { child, port } = await start(0)
  const executions = new ExecutionLog(log)
  return {
    url: `http://127.0.0.1:${port}`,
    get process() {
      return child
    },
    executions: () => executions.executions(),
    restart: async () => {
      ;({ child, port } = await start(port))
    },
    [Symbol.asyncDispose]: async () => {
      await child.end({ signal: 'SIGKILL' })
    },
  }
}

/** Reads only what was written since the last read: waiting polls often. */
class ExecutionLog {
  readonly #path: string
  readonly #started: Extract<Line, { at: 'start' }>[] = []
  readonly #ends = new Map<string, number>()
  #read = 0

  constructor(path: string) {
    this.#path = path
  }

  executions(): readonly Execution[] {
    const text = readFileSync(this.#path).subarray(this.#read).toString()
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    this.#read += Buffer.byteLength(whole)
    for (const line of parsed(whole)) {
      if (line.at === 'start') this.#started.push(line)
      if (line.at === 'end') this.#ends.set(nameOf(line), line.endMs)
    }
    return this.#started.map(({ at: _, lock: __, ...started }) => ({
      ...started,
      endMs: this.#ends.get(nameOf(started)),
      answer: answerOf(started.key, started.token),
    }))
  }
}

function nameOf({ op, token }: { readonly op: number; readonly token: number }): string {
  return `${op} ${token}`
}

function linesOf(log: string): readonly Line[] {
  return parsed(readFileSync(log, 'utf8'))
}

function parsed(text: string): readonly Line[] {
  return text.split('\n').flatMap((line) => (line.endsWith('}') ? [JSON.parse(line) as Line] : []))
}

/** The answer of an execution, unlike any other. */
function answerOf(key: string, token: number): string {
  return JSON.stringify({ key, token, charged: true })
}

function serve(log: string, port: number): void {
  const file = openSync(log, 'a+')
  const counts = new Map<string, number>()
  const books = new Books()
  for (const line of linesOf(log)) {
    note(books, line)
    if (line.at === 'start' || line.at === 'crash')
      counts.set(scopeOf(line), (counts.get(scopeOf(line)) ?? 0) + 1)
  }
  const write = (line: Line) => {
    writeSync(file, `${JSON.stringify(line)}\n`)
    fdatasyncSync(file)
    note(books, line)
  }
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('error', () => {})
    response.on('error', () => {})
    request.on('end', () => {
      if (request.url === '/books' || request.url === '/settle')
        return answerFromBooks(request.url, Buffer.concat(parts), response, books, write)
      const demand = JSON.parse(Buffer.concat(parts).toString()) as Demand
      const told = toldBy(request)
      // An attempt that arrives after "not executed" was said of it.
      if (books.refuses(told.lock)) return answer(response, 'status:503', '{"refused":true}')
      const scope = scopeOf({ tenant: told.tenant, key: demand.key })
      const before = counts.get(scope) ?? 0
      counts.set(scope, before + 1)
      const mode = demand.script[before] ?? 'ok'
      const { key, content } = demand
      if (mode === 'crash-before') {
        write({ at: 'crash', tenant: told.tenant, key })
        process.exit(1)
      }
      if (mode === 'drop') {
        write({ at: 'crash', tenant: told.tenant, key })
        return response.socket?.resetAndDestroy()
      }
      write({ at: 'start', ...told, key, content, mode, startMs: nowMs() })
      const finish = () => {
        write({ at: 'end', lock: told.lock, op: told.op, token: told.token, endMs: nowMs() })
        answer(response, mode, answerOf(demand.key, told.token))
      }
      const slow = /^slow:(\d+)$/.exec(mode)
      if (slow === null) finish()
      else setTimeout(finish, Number(slow[1]))
    })
  })
  // Node's own limits must not look like a fault of the script.
  server.keepAliveTimeout = 600_000
  server.listen(port, '127.0.0.1', () => {
    console.log(`listening on ${(server.address() as AddressInfo).port}`)
  })
  process.once('SIGTERM', () => {
    closeSync(file)
    process.exit(0)
  })
}

function note(books: Books, line: Line): void {
  if (line.at === 'start') books.started(line.lock, line.op, answerOf(line.key, line.token))
  if (line.at === 'end') books.ended(line.lock, line.op)
  if (line.at === 'renounced') books.renounced(line.lock)
}

/** `/books`: an operator opens them about one claim. `/settle`: the sidecar asks (FENCEPOST_SETTLE_PATH). */
function answerFromBooks(
  path: '/books' | '/settle',
  asked: Buffer,
  response: ServerResponse,
  books: Books,
  write: (line: Line) => void,
): void {
  const { lock_id: lock } = JSON.parse(asked.toString()) as { readonly lock_id: string }
  const reply =
    path === '/settle' ? books.says(lock) : books.open(lock, () => write({ at: 'renounced', lock }))
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(reply))
}

function scopeOf({ tenant, key }: { readonly tenant: string; readonly key: string }): string {
  return `${tenant}/${key}`
}

function toldBy({ headers }: IncomingMessage) {
  return {
    tenant: String(headers['x-tenant-id'] ?? ''),
    token: Number(headers['fencepost-fencing-token'] ?? 0),
    attempt: Number(headers['fencepost-attempt'] ?? 0),
    op: Number(headers['x-operation'] ?? 0),
    lock: String(headers['fencepost-lock-id'] ?? ''),
  }
}

function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

function answer(response: ServerResponse, mode: Mode, body: string): void {
  const json = { 'content-type': 'application/json' }
  const length = { ...json, 'content-length': String(body.length) }
  switch (mode) {
    case 'crash-after':
      process.exit(1)
      break
    case 'half-body':
      response.writeHead(201, length)
      response.write(body.slice(0, 10), () => response.socket?.end())
      break
    case 'reset':
      response.socket?.resetAndDestroy()
      break
    case 'wrong-length':
      response.socket?.end(
        `HTTP/1.1 201 Created\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\n${body}`,
        () => {},
      )
      break
    case 'trailers':
      response.writeHead(201, { ...json, trailer: 'x-checked' })
      response.write(body)
      response.addTrailers({ 'x-checked': 'yes' })
      response.end()
      break
    case 'huge-head':
      response.socket?.write(`HTTP/1.1 201 Created\r\nx-huge: ${'h'.repeat(2 * 1024 * 1024)}\r\n\r\n`)
      break
    case 'endless':
      response.writeHead(201, json)
      response.write(body)
      // Never ended: the sidecar's limit of silence ends it.
      break
    default: {
      const status = /^status:(\d+)$/.exec(mode)
      response.writeHead(status === null ? 201 : Number(status[1]), length)
      response.end(body)
    }
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  serve(process.argv[2] ?? '/dev/null', Number(process.argv[3] ?? 0))
}
