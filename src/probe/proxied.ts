/**
 * Synthetic duplicates through the proxy: copies with one key at the same moment, then once more, then with other content.
 *
 * The application behind the proxy is the probe's own, which counts: nothing else proves how often a request was executed. The
 * same volley goes through Envoy's ext_proc, where the probe is Envoy, too, and executed is what the sidecar lets go on.
 */

import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  type EnvoyAnswer,
  type EnvoyCaller,
  type FloodOptions,
  headerOf,
  listenerOf,
  PROBED_HOST,
  post,
  type Reply,
  replyOf,
  saidBy,
  statusOf,
} from './call.ts'
import { race } from './race.ts'
import {
  type Copy,
  type Finding,
  finding,
  judgeProxied,
  type ProbedEntrypoint,
  type Result,
  type Volley,
} from './verdict.ts'

export function proxyVolley(
  number: number,
  options: FloodOptions,
  application: ProbedApplication,
): Promise<Volley> {
  const { run, tenant, path, timeoutMs } = options
  const key = `probe-${run}-proxy-${number}`
  const headers = { 'idempotency-key': key, 'x-tenant-id': tenant, 'content-type': 'application/json' }
  return executedVolley('proxy', number, options, {
    counted: application.expect(key),
    send: (url, body) => post(`${url}${path}`, headers, body, timeoutMs),
    elsewhere: `this sidecar's application (FENCEPOST_UPSTREAM) is another one`,
  })
}

/** How a synthetic request reaches an application of the probe that counts. */
type Executed = {
  readonly counted: ReturnType<ProbedApplication['expect']>
  readonly send: (url: string, body: string) => Promise<Reply>
  /** What is so where the application was not reached, although the sidecar says so. */
  readonly elsewhere: string
}

/** One volley through what executes requests and replays their answers. */
async function executedVolley(
  entrypoint: ProbedEntrypoint,
  number: number,
  options: FloodOptions,
  { counted, send: sendTo, elsewhere }: Executed,
): Promise<Volley> {
  const send = async (content: 'first' | 'other', copy: number): Promise<Sent> => {
    const url = listenerOf(options, number, copy)
    const reply = await sendTo(url, JSON.stringify({ probe: options.run, content }))
    return { url, reply, copy: copyOf(reply) }
  }
  const {
    asked: sent,
    result,
    detail,
    durationMs,
  } = await race(
    options.copies,
    (copy) => send('first', copy),
    (all) => {
      const copies = all.map(({ copy }) => copy)
      return judgeProxied({ copies, executions: counted.executions(), bodies: bodiesOf(all).size })
    },
  )
  const failed = sent.find(({ copy }) => copy === 'failed')
  const why =
    failed === undefined
      ? `the application counted ${counted.executions()} executions; if it counts none, ${elsewhere}`
      : whyOf(failed)
  const findings = [finding('one', result, detail ?? why)]
  let requests = sent.length
  if (result === 'ok') {
    const [again, other] = [await send('first', options.copies), await send('other', options.copies + 1)]
    findings.push(...judgeFurther(again, other, [...bodiesOf(sent)][0], counted.executions()))
    requests += 2
  }
  counted.forget()
  return { entrypoint, findings, requests, durationMs }
}

type Sent = { readonly url: string; readonly reply: Reply; readonly copy: Copy }

/** Of the answers that show an outcome. */
function bodiesOf(sent: readonly Sent[]): ReadonlySet<string> {
  return new Set(sent.flatMap(({ reply }) => (statusOf(reply) === 201 ? [textOf(reply)] : [])))
}

function judgeFurther(again: Sent, other: Sent, recorded: string | undefined, executions: number): Finding[] {
  const isReplay = statusOf(again.reply) === 201 && headerOf(again.reply, STATUS) === 'replayed'
  const same = recorded === undefined || textOf(again.reply) === recorded
  let replay: Result = 'error'
  if (executions > 1 || (isReplay && !same) || again.copy === 'granted') replay = 'false_negative'
  else if (isReplay) replay = 'ok'
  let mismatch: Result = 'error'
  if (statusOf(other.reply) === 422) mismatch = 'ok'
  else if (other.copy === 'granted') mismatch = 'false_negative'
  else if (statusOf(other.reply) === 201) mismatch = 'false_positive'
  return [
    finding('replay', replay, saidBy(again.url, again.reply)),
    finding('mismatch', mismatch, saidBy(other.url, other.reply)),
  ]
}

const STATUS = 'idempotency-status'

function copyOf(reply: Reply): Copy {
  switch (statusOf(reply)) {
    case 201:
      return headerOf(reply, STATUS) === 'created'
        ? 'granted'
        : headerOf(reply, STATUS) === 'replayed'
          ? 'refused'
          : 'failed'
    case 409:
      return 'refused'
    default:
      return 'failed'
  }
}

function textOf(reply: Reply): string {
  return reply.kind === 'reply' ? reply.text : ''
}

function whyOf({ url, reply }: Sent): string {
  if (statusOf(reply) !== 201) return saidBy(url, reply)
  return `${url} answered 201 with Idempotency-Status ${headerOf(reply, STATUS) ?? 'missing'}: no route of it protects the path of the probe, or the quorum did not take the outcome`
}

export function processVolley(number: number, options: FloodOptions, envoy: EnvoyCaller): Promise<Volley> {
  const { run, tenant, path, timeoutMs } = options
  const headers = {
    'idempotency-key': `probe-${run}-ext_proc-${number}`,
    'x-tenant-id': tenant,
    'content-type': 'application/json',
  }
  let executions = 0
  let sent = 0
  const execute = (): EnvoyAnswer => {
    executions += 1
    // Each execution answers something else: two of them can't pass for one.
    const text = `{"execution":"${number}-${executions}"}`
    return { status: 201, headers: new Headers({ 'content-type': 'application/json' }), text }
  }
  return executedVolley('ext_proc', number, options, {
    counted: { executions: () => executions, forget: () => {} },
    send: (url, body) => {
      sent += 1
      const id = `${run}-${number}-${sent}`
      const request = { id, method: 'POST', path, host: PROBED_HOST, headers, body }
      return replyOf(envoy.process(url, request, execute, timeoutMs))
    },
    elsewhere: 'this sidecar let none of them go on',
  })
}

export type ProbedApplication = Awaited<ReturnType<typeof startApplication>>

/** Far above what a sidecar keeps an idle connection: it is the sidecar that closes, and no request meets a closed one. */
const KEEP_ALIVE_MS = 60_000

/** It executes only what a volley under way has announced: no real application sees a synthetic request. The rest is answered 404. */
export async function startApplication(host: string, port: number) {
  const counted = new Map<string, number>()
  let executions = 0
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    request.resume().on('end', () => {
      const key = String(request.headers['idempotency-key'])
      const before = counted.get(key)
      if (before === undefined) {
        response.writeHead(404).end()
        return
      }
      counted.set(key, before + 1)
      executions += 1
      // Each execution answers something else: two of them can't pass for one.
      response.writeHead(201, { 'content-type': 'application/json' }).end(`{"execution":${executions}}`)
    })
  })
  const listening = await listenAt(server, host, port)
  return {
    ...listening,
    /** From now on until it is forgotten, executions with this key are counted. */
    expect: (key: string) => {
      counted.set(key, 0)
      return { executions: () => counted.get(key) ?? 0, forget: () => void counted.delete(key) }
    },
  }
}

/** A server of the probe itself. */
export async function listenAt(
  server: Server,
  host: string,
  port: number,
): Promise<AsyncDisposable & { readonly url: string }> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  return {
    url: `http://${host}:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
