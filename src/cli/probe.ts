/**
 * `fencepost probe`: a continuous flood of synthetic duplicates against running sidecars.
 *
 * Exits with 1 if a duplicate was treated wrongly or a sidecar did not answer: `--once` is a check for CI, `helm test`.
 */

import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { openEnvoyCaller } from '../app/envoy-caller.ts'
import { withoutBrackets } from '../config/addresses.ts'
import { parseDuration } from '../core/quantity.ts'
import type { EnvoyCaller, FloodOptions } from '../probe/call.ts'
import { checkVolley } from '../probe/checks.ts'
import { fingerprintVolley } from '../probe/fingerprints.ts'
import {
  listenAt,
  type ProbedApplication,
  processVolley,
  proxyVolley,
  startApplication,
} from '../probe/proxied.ts'
import { reservationVolley } from '../probe/reservations.ts'
import { createTally, type Tally } from '../probe/tally.ts'
import { type ProbedEntrypoint, type Volley, wrongOnes } from '../probe/verdict.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  faultOfAddress,
  type Io,
  refused,
  tokenAt,
  withArguments,
} from './command.ts'
import { liveLine } from './terminal.ts'

type Options = {
  readonly api?: string[]
  readonly fingerprint?: true
  readonly proxy?: string[]
  readonly application?: string
  readonly gateway?: string[]
  readonly gatewayGrpc?: string[]
  readonly path: string
  readonly tenant: string
  readonly retention: string
  readonly timeout: string
  readonly rate: string
  readonly copies: string
  readonly tokenFile?: string
  readonly once?: true
  readonly json?: true
  readonly quiet?: true
  readonly prometheus?: string
}

const DEFAULT_URL = 'http://127.0.0.1:8081'
const ONCE_VOLLEYS = 20
const SHOW_EVERY_MS = 1_000

export const probe: Command = (args, io) =>
  withArguments('probe', args, io, (parser, done) => {
    parser
      .description('floods entry points of sidecars with synthetic duplicates and judges the answers')
      .option(
        '--api <url...>',
        'reservation API of a sidecar; several are asked in turn (default: FENCEPOST_URL, or http://127.0.0.1:8081)',
      )
      .option('--fingerprint', 'compare fingerprints of these as well')
      .option('--proxy <url...>', 'proxy of a sidecar whose application is this probe')
      .option('--application <host:port>', 'be that application there; required with --proxy')
      .option(
        '--gateway <url...>',
        'gateway listener of a sidecar: the check over HTTP, and ext_authz over HTTP',
      )
      .option(
        '--gateway-grpc <url...>',
        'listener for Envoy over gRPC: ext_authz, whose claims are reported to --gateway, and ext_proc',
      )
      .option('--path <path>', 'of the synthetic requests; a route has to protect it', '/fencepost-probe')
      .option('--tenant <name>', 'whose requests they are', 'fencepost-probe')
      .option('--retention <duration>', 'of the reservations; of the others the route says it', '1m')
      .option('--rate <n>', 'requests a second', '50')
      .option('--copies <n>', 'how many at once want the same value', '5')
      .option('--token-file <path>', 'file with the bearer token of the API, which gateways show, too')
      .option('--timeout <duration>', 'after which a request counts as not answered', '5s')
      .option('--once', `${ONCE_VOLLEYS} volleys an entry point, then end: 0 where all were right, else 1`)
      .option('--json', 'a JSON object a second instead of a live line')
      .option('--quiet', 'only a JSON object for each answer that was not right')
      .option('--prometheus <host:port>', 'serve /metrics there')
      .action(async (options: Options) => done(await run(options, io)))
  })

async function run(options: Options, io: Io): Promise<ExitCode> {
  const wrong = faultOf(options)
  if (wrong !== undefined) return refused(io, wrong)
  const read = tokenAt(options.tokenFile, io)
  if ('fault' in read) return refused(io, read.fault, EXIT.configuration)
  await using stack = new AsyncDisposableStack()
  const entrypoints = entrypointsOf(options)
  const copies = Number(options.copies)
  const tally = createTally(copies, entrypoints)
  let application: ProbedApplication | undefined
  let envoy: EnvoyCaller | undefined
  try {
    stack.use(await servedAt(options.prometheus, tally, io))
    application = await applicationAt(options.application, io)
    stack.use(application)
    envoy = options.gatewayGrpc && stack.use(await openEnvoyCaller(read.token))
  } catch (cause) {
    return refused(io, (cause as Error).message, EXIT.configuration)
  }
  const fire = volleysOf(options, { token: read.token, io, application, envoy })
  let stopped = false
  const forget = io.signals.onStop(() => {
    stopped = true
  })
  const shown = shownBy(options, tally, io)
  const volleys = options.once === true ? ONCE_VOLLEYS * entrypoints.length : Number.POSITIVE_INFINITY
  const next = async (number: number) => {
    const volley = await fire(entrypoints[number % entrypoints.length] as ProbedEntrypoint, number)
    tally.add(volley)
    shown.volley(volley)
  }
  await send(next, (copies / Number(options.rate)) * 1_000, volleys, () => stopped)
  forget()
  shown.end()
  return tally.wrong === 0 && tally.volleys > 0 ? EXIT.ok : EXIT.failure
}

/** A sentence where the options do not go together. */
function faultOf(options: Options): string | undefined {
  const { rate, copies, proxy, application, gateway, gatewayGrpc, path } = options
  if (!(Number(rate) > 0) || !Number.isInteger(Number(copies)) || Number(copies) < 2)
    return '--rate is a number above 0, --copies a whole number from 2 up'
  if (!((parseDuration(options.timeout) ?? 0) > 0))
    return `--timeout ${options.timeout} is not accepted; accepted is a duration such as 500ms or 5s`
  if ((proxy === undefined) !== (application === undefined))
    return '--proxy and --application go together: synthetic requests must reach no other application than the probe'
  if (gatewayGrpc !== undefined && gateway === undefined)
    return '--gateway-grpc needs --gateway: the claim of a check over gRPC is reported over HTTP'
  const unnamed = gatewayGrpc?.find((url) => /^https:\/\/(\[|[\d.]+(:|\/|$))/.test(url))
  if (unnamed !== undefined)
    return `--gateway-grpc ${unnamed} is not accepted; over TLS accepted is the name that its certificate is for, not an IP address`
  if (!/^\/[^?#\s]*$/.test(path))
    return `--path ${path} is not accepted; accepted is a path such as /fencepost-probe`
  return (
    faultOfAddress('--api', options.api ?? []) ??
    faultOfAddress('--proxy', proxy ?? []) ??
    faultOfAddress('--gateway', gateway ?? []) ??
    faultOfAddress('--gateway-grpc', gatewayGrpc ?? [])
  )
}

/** The reservation API where nothing else is named. */
function entrypointsOf({ api, fingerprint, proxy, gateway, gatewayGrpc }: Options): ProbedEntrypoint[] {
  const others = proxy !== undefined || gateway !== undefined
  return [
    ...(api !== undefined || !others ? (['api'] as const) : []),
    ...(fingerprint === true ? (['fingerprint'] as const) : []),
    ...(proxy === undefined ? [] : (['proxy'] as const)),
    ...(gateway === undefined ? [] : (['http_check', 'ext_authz'] as const)),
    ...(gatewayGrpc === undefined ? [] : (['ext_authz_grpc', 'ext_proc'] as const)),
  ]
}

type FireWith = {
  readonly token: string | undefined
  readonly io: Io
  /** Where a proxy is probed. */
  readonly application: ProbedApplication | undefined
  /** Where a listener over gRPC is probed. */
  readonly envoy: EnvoyCaller | undefined
}

type Fire = (entrypoint: ProbedEntrypoint, number: number) => Promise<Volley>

function volleysOf(options: Options, { token, io, application, envoy }: FireWith): Fire {
  const { copies, tenant, retention, path, timeout } = options
  const run = crypto.randomUUID()
  const over = (urls: readonly string[] = []): FloodOptions => ({
    urls,
    copies: Number(copies),
    token,
    run,
    tenant,
    retention,
    path,
    timeoutMs: parseDuration(timeout) as number,
  })
  const api = over(options.api ?? [io.env.FENCEPOST_URL ?? DEFAULT_URL])
  const proxy = over(options.proxy)
  const reportUrls = options.gateway ?? []
  const gateway = { ...over(reportUrls), reportUrls }
  const grpc = { ...over(options.gatewayGrpc), reportUrls }
  return (entrypoint, number) => {
    switch (entrypoint) {
      case 'api':
        return reservationVolley(number, api)
      case 'fingerprint':
        return fingerprintVolley(number, api)
      case 'proxy':
        return proxyVolley(number, proxy, application as ProbedApplication)
      case 'http_check':
      case 'ext_authz':
        return checkVolley(entrypoint, number, gateway)
      case 'ext_authz_grpc':
        return checkVolley(entrypoint, number, grpc, envoy)
      case 'ext_proc':
        return processVolley(number, grpc, envoy as EnvoyCaller)
    }
  }
}

/** What is written while it runs: all results once a second, or with `--quiet` what was not right. */
function shownBy({ json, quiet }: Options, tally: Tally, io: Io) {
  if (quiet === true)
    return {
      volley: (volley: Volley) => {
        for (const wrong of wrongOnes(volley))
          io.stdout.write(`${JSON.stringify({ time: new Date().toISOString(), ...wrong })}\n`)
      },
      end: () => {},
    }
  const line = liveLine(io.stdout)
  const show = () => {
    if (json === true) io.stdout.write(`${JSON.stringify(tally.json())}\n`)
    else line.show(tally.line())
  }
  const timer = setInterval(show, SHOW_EVERY_MS)
  return {
    volley: () => {},
    end: () => {
      clearInterval(timer)
      show()
      if (json !== true) line.end()
    },
  }
}

/** Open loop: a volley begins at its time, whether or not the previous one has ended. */
async function send(
  volley: (number: number) => Promise<void>,
  everyMs: number,
  volleys: number,
  stopped: () => boolean,
) {
  const inFlight = new Set<Promise<void>>()
  const startedMs = performance.now()
  for (let number = 0; number < volleys && !stopped(); number += 1) {
    const one: Promise<void> = volley(number).then(() => {
      inFlight.delete(one)
    })
    inFlight.add(one)
    await pause(Math.max(0, startedMs + (number + 1) * everyMs - performance.now()))
  }
  await Promise.all(inFlight)
}

async function applicationAt(at: string | undefined, io: Io): Promise<ProbedApplication | undefined> {
  if (at === undefined) return undefined
  const { host, port } = hostAndPort('--application', at)
  const application = await named('--application', at, startApplication(host, port))
  io.stderr.write(`application on ${application.url}\n`)
  return application
}

async function servedAt(at: string | undefined, tally: Tally, io: Io): Promise<AsyncDisposable | undefined> {
  if (at === undefined) return undefined
  const { host, port } = hostAndPort('--prometheus', at)
  const server = createServer((_, response) => {
    response
      .writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' })
      .end(tally.exposition())
  })
  const served = await named('--prometheus', at, listenAt(server, host, port))
  io.stderr.write(`metrics on ${served.url}/metrics\n`)
  return served
}

/** An error names the option. */
function named<T>(option: string, at: string, listening: Promise<T>): Promise<T> {
  return listening.catch((cause: Error) => {
    throw new Error(`${option} ${at}: ${cause.message}`, { cause })
  })
}

function hostAndPort(option: string, at: string): { host: string; port: number } {
  const [, host = '', port] = /^(.+):(\d{1,5})$/.exec(at) ?? []
  if (Number(port ?? 65_536) > 65_535) throw new Error(`${option} ${at}: accepted is host:port`)
  return { host: withoutBrackets(host), port: Number(port) }
}
