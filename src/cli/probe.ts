/**
 * `fencepost probe`: a continuous flood of synthetic duplicates against running sidecars.
 *
 * Exits with 1 if a duplicate was treated wrongly or a sidecar did not answer: `--once` is a check for CI, `helm test`.
 */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { type FloodOptions, volley } from '../probe/flood.ts'
import { createTally, type Tally } from '../probe/tally.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  faultOfAddress,
  faultOfToken,
  type Io,
  tokenAt,
  withArguments,
} from './command.ts'
import { liveLine } from './live-line.ts'

type Options = {
  readonly api?: string[]
  readonly rate: string
  readonly copies: string
  readonly tokenFile?: string
  readonly once?: true
  readonly json?: true
  readonly prometheus?: string
}

const DEFAULT_URL = 'http://127.0.0.1:8081'
const ONCE_VOLLEYS = 20
const TIMEOUT_MS = 5_000
const SHOW_EVERY_MS = 1_000

export const probe: Command = (args, io) =>
  withArguments('probe', args, io, (parser, done) => {
    parser
      .description('floods the reservation API of sidecars with synthetic duplicates and judges the answers')
      .option(
        '--api <url...>',
        'reservation API of a sidecar; several are asked in turn (default: FENCEPOST_URL)',
      )
      .option('--rate <n>', 'requests a second', '50')
      .option('--copies <n>', 'how many at once want the same value', '5')
      .option('--token-file <path>', 'file with the bearer token of the API')
      .option('--once', `${ONCE_VOLLEYS} volleys, then end: 0 where all were right, else 1`)
      .option('--json', 'a JSON object a second instead of a live line')
      .option('--prometheus <host:port>', 'serve /metrics there')
      .action(async (options: Options) => done(await run(options, io)))
  })

async function run(options: Options, io: Io): Promise<ExitCode> {
  const rate = Number(options.rate)
  const copies = Number(options.copies)
  if (!(rate > 0) || !Number.isInteger(copies) || copies < 2) {
    io.stderr.write('--rate is a number above 0, --copies a whole number from 2 up\n')
    return EXIT.usage
  }
  const urls = options.api ?? [io.env.FENCEPOST_URL ?? DEFAULT_URL]
  const wrong = faultOfAddress('--api', urls)
  if (wrong !== undefined) {
    io.stderr.write(`${wrong}\n`)
    return EXIT.usage
  }
  const read = tokenAt(options.tokenFile, io)
  const fault = 'fault' in read ? read.fault : faultOfToken(read.token)
  if ('fault' in read || fault !== undefined) {
    io.stderr.write(`${fault}\n`)
    return EXIT.configuration
  }
  const { token } = read
  const flood: FloodOptions = {
    urls,
    copies,
    token,
    run: crypto.randomUUID(),
    timeoutMs: TIMEOUT_MS,
  }
  const tally = createTally(copies)
  const served = await servedAt(options.prometheus, tally, io).catch((cause: Error) => cause)
  if (served instanceof Error) {
    io.stderr.write(`--prometheus ${options.prometheus}: ${served.message}\n`)
    return EXIT.configuration
  }
  await using _ = served
  let stopped = false
  const forget = io.signals.onStop(() => {
    stopped = true
  })
  const line = liveLine(io.stdout)
  const show = () => {
    if (options.json === true) io.stdout.write(`${JSON.stringify(tally.json())}\n`)
    else line.show(tally.line())
  }
  const shown = setInterval(show, SHOW_EVERY_MS)
  await send(
    flood,
    (copies / rate) * 1_000,
    options.once === true ? ONCE_VOLLEYS : Number.POSITIVE_INFINITY,
    tally,
    () => stopped,
  )
  clearInterval(shown)
  forget()
  show()
  if (options.json !== true) line.end()
  return tally.wrong === 0 && tally.volleys > 0 ? EXIT.ok : EXIT.failure
}

/** Open loop: a volley begins at its time, whether or not the previous one has ended. */
async function send(
  flood: FloodOptions,
  everyMs: number,
  volleys: number,
  tally: Tally,
  stopped: () => boolean,
) {
  const inFlight = new Set<Promise<void>>()
  const startedMs = performance.now()
  for (let number = 0; number < volleys && !stopped(); number += 1) {
    const one: Promise<void> = volley(number, flood).then((result) => {
      tally.add(result)
      inFlight.delete(one)
    })
    inFlight.add(one)
    await pause(Math.max(0, startedMs + (number + 1) * everyMs - performance.now()))
  }
  await Promise.all(inFlight)
}

async function servedAt(at: string | undefined, tally: Tally, io: Io): Promise<AsyncDisposable> {
  if (at === undefined) return { [Symbol.asyncDispose]: async () => {} }
  const [, host = '', port] = /^(.+):(\d{1,5})$/.exec(at) ?? []
  if (Number(port ?? 65_536) > 65_535) throw new Error('accepted is host:port')
  const server = createServer((_, response) => {
    response
      .writeHead(200, { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' })
      .end(tally.exposition())
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(Number(port), host.replace(/^\[(.*)\]$/, '$1'), resolve)
  })
  io.stderr.write(`metrics on http://${host}:${(server.address() as AddressInfo).port}/metrics\n`)
  return {
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}
