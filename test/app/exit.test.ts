/** How the process ends once its work is done: at once, and without losing what it wrote. */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startApplication } from '../support/application.ts'
import { startCountingApplication } from '../support/counting-application.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { startOtlpReceiver } from '../support/otlp-receiver.ts'
import { posted, postedJson } from '../support/post.ts'
import { startFencepost } from '../support/processes.ts'
import { between, startSidecar } from '../support/sidecar.ts'

const folder = folderOfTests('exit')

/** A module that is loaded before the program. */
function preload(name: string, source: string): { readonly NODE_OPTIONS: string } {
  const file = join(folder, `${name}.cjs`)
  writeFileSync(file, source)
  return { NODE_OPTIONS: `--require=${file}` }
}

/** Node's own last step of `process.exit`, which a process that only runs out of work does not take. */
const SHOWS_EXIT = `
const { writeSync } = require('node:fs')
const end = process.reallyExit
process.reallyExit = (code) => { writeSync(2, 'exit was called\\n'); end.call(process, code) }
`

test.each([
  ['ok', ['config', 'schema'], 0],
  ['a refused configuration', ['config', 'check'], 78],
] as const)(
  '%s: the process exits by itself, without the cleanup of handles, and keeps its code',
  async (name, args, code) => {
    await using command = startFencepost(args, {
      env: { ...preload(name.replaceAll(' ', '-'), SHOWS_EXIT), FENCEPOST_REDIS_NODES: undefined },
    })
    expect(await command.exited).toEqual({ code, signal: null })
    expect(command.output).toContain('exit was called')
    expect(command.output).not.toContain('did not end')
  },
)

test('a handle that is left open is named, and does not keep the process', async () => {
  await using command = startFencepost(['config', 'schema'], {
    env: preload('open', "require('node:net').createServer().listen(0, '127.0.0.1')"),
  })
  expect(await command.exited).toEqual({ code: 0, signal: null })
  expect(command.output).toMatch(
    /did not end within 5000 ms, because of what was still open: .*TCPServerWrap/,
  )
})

test('nothing that was written is lost where the reader of a pipe takes it later', async () => {
  // A pipe holds 64 KiB; the rest waits in the process until the reader takes it.
  const env = preload('writes', "process.stdout.write('x'.repeat(1_000_000) + '\\n')")
  const child = spawn(process.execPath, [MAIN_PROGRAM, 'config', 'schema'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const closed = new Promise<number | null>((resolve) => child.once('close', resolve))
  child.stdout.pause()
  // By now it has filled the pipe, and cannot have ended.
  await new Promise((resolve) => child.stdout.once('readable', resolve))
  expect(child.exitCode).toBeNull()
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (part) => {
    text += part
  })
  expect(await closed).toBe(0)
  expect(text.startsWith('x'.repeat(1_000_000))).toBe(true)
  expect(() => JSON.parse(text.slice(1_000_001))).not.toThrow()
})

// Bug: SIGHUP, which has other servers read their files again, ended the process in the middle of a payment.
test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
  '%s: what is under way is finished first',
  async (signal) => {
    const asked = Promise.withResolvers<ServerResponse>()
    await using application = await startApplication((request, response) => {
      if (request.method === 'POST') asked.resolve(response)
      else response.end()
    })
    await using sidecar = await startSidecar(between('embedded', application))
    const answer = posted(`${sidecar.proxy}/payments`, { 'idempotency-key': signal })
    const payment = await asked.promise
    sidecar.process.signal(signal)
    await eventually('the port is closed', () =>
      fetch(sidecar.proxy).then(
        () => false,
        () => true,
      ),
    )
    payment.writeHead(201).end('paid')
    expect(await (await answer).text()).toBe('paid')
    expect(await sidecar.process.exited).toEqual({ code: 0, signal: null })
  },
)

/** A sidecar with payments under way that is told to end, and whose port is closed by now. */
async function startDrain(signal: 'SIGTERM' | 'SIGHUP', keys: readonly string[]) {
  const stack = new AsyncDisposableStack()
  const payments: ServerResponse[] = []
  const application = stack.use(
    await startApplication((request, response) => {
      if (request.method === 'POST') payments.push(response)
      else response.end()
    }),
  )
  const child = spawn(process.execPath, [MAIN_PROGRAM, 'serve'], {
    env: {
      ...process.env,
      ...between('embedded', application),
      FENCEPOST_PROXY_LISTEN: '127.0.0.1:0',
      FENCEPOST_API_LISTEN: 'off',
      FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
      FENCEPOST_CLAIM_BUDGET: '3s',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  stack.defer(() => void child.kill('SIGKILL'))
  const exited = new Promise((resolve) => child.once('exit', (code, by) => resolve({ code, by })))
  let log = ''
  child.stdout.setEncoding('utf8').on('data', (part) => {
    log += part
  })
  const [, proxy = ''] = await eventually('its proxy listens', () => /"proxy":"([^"]+)"/.exec(log))
  const answers = keys.map(async (key) => {
    const headers = { 'idempotency-key': key }
    return (await fetch(`${proxy}/payments`, { method: 'POST', headers, body: '{}' })).status
  })
  await eventually('all payments are under way', () => payments.length === keys.length)
  child.kill(signal)
  await eventually('the port is closed', () =>
    fetch(proxy).then(
      () => false,
      () => true,
    ),
  )
  const pay = () => {
    for (const payment of payments) payment.writeHead(201).end('paid')
  }
  return { pay, child, answers, exited, [Symbol.asyncDispose]: () => stack.disposeAsync() }
}

// Bug: the first line of the drain that nobody read ended the process. Ctrl-C ends `fencepost serve | tee log` like that: tee has gone at once.
test('the reader of the log has gone during the drain: what is under way is finished', async () => {
  await using drain = await startDrain('SIGTERM', ['one', 'two', 'three'])
  drain.child.stdout.destroy()
  drain.pay()
  expect(await Promise.all(drain.answers)).toEqual([201, 201, 201])
  expect(await drain.exited).toEqual({ code: 0, by: null })
})

// Bug: a shell that loses its terminal sends SIGHUP, and so does the kernel when the shell has ended. The second one cut off what was under way.
test('SIGHUP comes twice, as from a terminal that is closed: what is under way is finished', async () => {
  await using drain = await startDrain('SIGHUP', ['one'])
  drain.child.kill('SIGHUP')
  drain.pay()
  expect(await Promise.all(drain.answers)).toEqual([201])
  expect(await drain.exited).toEqual({ code: 0, by: null })
})

test('the spans of the last request are sent before the process ends', async () => {
  await using collector = await startOtlpReceiver()
  await using application = await startCountingApplication()
  await using sidecar = await startSidecar({
    ...between('embedded', application),
    ...collector.env,
    // Only its end sends them.
    OTEL_BSP_SCHEDULE_DELAY: '600000',
  })
  const headers = { 'Idempotency-Key': 'last' }
  expect((await fetch(`${sidecar.proxy}/payments`, { method: 'POST', headers, body: '{}' })).status).toBe(201)
  expect(collector.spans).toEqual([])
  expect(await sidecar.process.end()).toEqual({ code: 0, signal: null })
  expect(collector.spans.map(({ name }) => name)).toContain('fencepost.acquire')
})

// Bug: it waited for the collector for five seconds more than it should, beyond the grace period of its pod, and then said that a
// handle was still open.
test('a collector that does not answer does not keep the process', async () => {
  const asked = Promise.withResolvers<void>()
  await using collector = await startApplication(() => asked.resolve())
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_TRACING: 'on',
    FENCEPOST_TRACE_SAMPLE_RATIO: '1',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.origin,
    OTEL_BSP_SCHEDULE_DELAY: '1',
  })
  await postedJson(`${sidecar.api}/v1/reservations`, { session_id: 's', reserved_value: 'v' })
  await asked.promise
  expect(await sidecar.process.end()).toEqual({ code: 0, signal: null })
  expect(sidecar.process.output).not.toContain('did not end')
})
