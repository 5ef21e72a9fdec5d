/**
 * `fencepost demo`: five nodes, an application, the sidecar in front, and a storm of duplicates that is executed once.
 */

import { startPaymentApplication } from '../demo/payment-application.ts'
import {
  findRedisProgram,
  freePorts,
  type RedisProcesses,
  startRedisProcesses,
} from '../demo/redis-processes.ts'
import { report, residentMemoryBytes } from '../demo/report.ts'
import { SidecarNotReady, startSidecar } from '../demo/sidecar-process.ts'
import { runStorm } from '../demo/storm.ts'
import { type Command, EXIT, type ExitCode, type Io, refused, withArguments } from './command.ts'
import { type LiveLine, liveLine } from './terminal.ts'

const NODES = 5
const PAYMENTS = 50
const COPIES = 20
const CONCURRENCY = 100

/** Duration of one charge: long enough for its duplicates to arrive meanwhile. */
const CHARGE_MS = 20

/** The node that dies half way through the storm. */
const VICTIM = 2

export const demo: Command = (args, io) =>
  withArguments('demo', args, io, (parser, done) => {
    parser
      .description('shows a storm of duplicates on five nodes carried out once')
      .option('--keep', 'stay up afterwards and print what to try by hand')
      .action(async ({ keep }: { keep?: true }) =>
        done(await demonstrate(io, keep === true).catch(notReady(io))),
      )
  })

/** A sidecar that does not get ready says why; any other error is a fault. */
function notReady(io: Io): (cause: unknown) => ExitCode {
  return (cause) => {
    if (!(cause instanceof SidecarNotReady)) throw cause
    return refused(io, cause.message, EXIT.failure)
  }
}

async function demonstrate(io: Io, keep: boolean): Promise<ExitCode> {
  const say = (line: string) => void io.stdout.write(`${line}\n`)
  // Listens from the start: however the demonstration ends, its nodes and its sidecar end with it.
  using stop = stopRequest(io)
  const program = findRedisProgram(io.env.PATH ?? '')
  await using redis = program === undefined ? undefined : await startRedisProcesses(program, NODES)
  say(
    redis === undefined
      ? `nodes:        ${NODES} embedded in the sidecar (no redis-server or valkey-server on the PATH)`
      : `nodes:        ${NODES} processes of ${redis.program}`,
  )
  await using application = await startPaymentApplication(CHARGE_MS)
  say(`application:  ${application.url}, charges whatever reaches it`)
  const [proxy = 0, admin = 0] = await freePorts(2)
  await using sidecar = await startSidecar(
    {
      ...io.env,
      FENCEPOST_REDIS_NODES: redis?.urls.join(',') ?? 'embedded',
      FENCEPOST_UPSTREAM: application.url,
    },
    { proxy, admin },
  )
  const idleMemoryBytes = residentMemoryBytes(await sidecar.metrics())
  say(`sidecar:      ${sidecar.proxyUrl}, ready after ${Math.round(sidecar.startUpMs)} ms`)

  const sent = PAYMENTS * COPIES
  say(`storm:        ${sent} requests, ${PAYMENTS} payments ${COPIES} times each, ${CONCURRENCY} at a time`)
  const line = liveLine(io.stdout)
  const progress = progressOf(line, sent)
  const startedMs = performance.now()
  const storm = runStorm({
    proxyUrl: sidecar.proxyUrl,
    payments: PAYMENTS,
    copies: COPIES,
    concurrency: CONCURRENCY,
    onAnswer: ({ answered, created, replayed, conflicts }) => {
      if (stop.heard()) return
      progress(answered, `${created} created, ${replayed} replayed, ${conflicts} answered 409`)
    },
    onHalfWay: async () => {
      if (!stop.heard()) await killOne(redis, sidecar.stopEmbeddedNode, line.aside)
    },
  })
  const tally = await Promise.race([storm, stop.promise])
  if (tally === 'stopped') return EXIT.failure
  const stormMs = performance.now() - startedMs
  const metrics = await sidecar.metrics()
  const { startUpMs } = sidecar
  const { charges } = application
  const verdict = report({
    payments: PAYMENTS,
    sent,
    tally,
    charges,
    metrics,
    idleMemoryBytes,
    startUpMs,
    stormMs,
  })
  say(`\n${verdict.text}`)
  if (keep) {
    tellWhatToTry(sidecar.proxyUrl, sidecar.adminUrl, say)
    await stop.promise
  }
  return verdict.ok ? EXIT.ok : EXIT.failure
}

async function killOne(
  redis: RedisProcesses | undefined,
  stopEmbedded: (index: number) => void,
  say: (line: string) => void,
): Promise<void> {
  if (redis === undefined) stopEmbedded(VICTIM)
  else await redis.kill(VICTIM)
  say(`node ${VICTIM} of ${NODES} was killed`)
}

/** Without a terminal, a line every tenth. */
function progressOf(line: LiveLine, total: number): (answered: number, what: string) => void {
  return (answered, what) => {
    if (line.onTerminal || answered % (total / 10) === 0)
      line.show(`${String(answered).padStart(5)} of ${total} answered: ${what}`)
    if (answered === total) line.end()
  }
}

function tellWhatToTry(proxyUrl: string, adminUrl: string, say: (line: string) => void): void {
  const body = `-H 'content-type: application/json' -d '{"payment":"by-hand","amount":1}'`
  say('\nstill running; Ctrl-C ends it. Try, twice each:')
  say(`  curl -i ${proxyUrl}/payments -H 'idempotency-key: by-hand' ${body}`)
  say(
    `  curl -i ${proxyUrl}/payments -H 'idempotency-key: by-hand' ${body.replace('"amount":1', '"amount":2')}`,
  )
  say(`  curl -s ${adminUrl}/readyz`)
  say(`  curl -s ${adminUrl}/metrics | grep ^fencepost_decisions_total`)
}

function stopRequest(io: Io) {
  let heard = false
  let forget = () => {}
  const promise = new Promise<'stopped'>((resolve) => {
    forget = io.signals.onStop(() => {
      // A second signal ends the process at once.
      forget()
      heard = true
      resolve('stopped')
    })
  })
  return { promise, heard: () => heard, [Symbol.dispose]: () => forget() }
}
