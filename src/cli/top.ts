/** `fencepost top`: a live view of a cluster in the terminal, from the admin listeners of one or several sidecars. */

import { setTimeout as pause } from 'node:timers/promises'
import { type Change, type Sample, sampleOf, screenOf } from '../probe/cluster-view.ts'
import { type Command, EXIT, type ExitCode, faultOfAddress, type Io, withArguments } from './command.ts'
import { printable } from './printable.ts'

const DEFAULT_ADMIN = 'http://127.0.0.1:9090'
const EVERY_MS = 1_000
const TIMEOUT_MS = 900

export const top: Command = (args, io) =>
  withArguments('top', args, io, (parser, done) => {
    parser
      .description('shows nodes, votes, margin, latencies, leases and decisions a second, live')
      .argument('[admin...]', `admin addresses of sidecars (default: ${DEFAULT_ADMIN})`)
      .option(
        '--once',
        'two looks a second apart, one screen, then end: 0 where every sidecar answered, else 1',
      )
      .action(async (admins: string[], options: { once?: true }) => {
        const fault = faultOfAddress('the admin address', admins)
        if (fault === undefined)
          return done(await run(admins.length === 0 ? [DEFAULT_ADMIN] : admins, options.once === true, io))
        io.stderr.write(`${fault}\n`)
        done(EXIT.usage)
      })
  })

async function run(admins: readonly string[], once: boolean, io: Io): Promise<ExitCode> {
  const stopped = new AbortController()
  const forget = io.signals.onStop(() => stopped.abort())
  const look = async () =>
    new Map(
      await Promise.all(admins.map(async (admin) => [admin, await sampleOf(admin, TIMEOUT_MS)] as const)),
    )
  let before: ReadonlyMap<string, Sample> = await look()
  while (!stopped.signal.aborted) {
    await pause(EVERY_MS, undefined, { signal: stopped.signal }).catch(() => {})
    const after = await look()
    const changes = new Map<string, Change>()
    for (const [admin, sample] of after) changes.set(admin, { before: before.get(admin), after: sample })
    const screen = `${screenOf(changes).map(printable).join('\n')}\n`
    // Home, clear everything below, then the screen.
    io.stdout.write(once ? screen : `\u001b[H\u001b[2J${screen}`)
    if (once) return [...after.values()].every(({ series }) => series !== undefined) ? EXIT.ok : EXIT.failure
    before = after
  }
  forget()
  return EXIT.ok
}
