/** `fencepost observe report`: what routes in mode observe would have done, from running sidecars, and a routes file that enforces it. */

import { enforcingRoutes, textOfRoutes } from '../config/print.ts'
import { CONFIG_FILE_ENV, SETTINGS } from '../config/settings.ts'
import { createObservations, type ObservationsView, observedSays } from '../core/health/observations.ts'
import {
  type Command,
  DEFAULT_ADMIN,
  EXIT,
  type ExitCode,
  faultOfAddress,
  type Io,
  refused,
  refusedConfig,
  withArguments,
} from './command.ts'
import { type FileOption, load } from './config.ts'
import { printable } from './terminal.ts'

type Options = FileOption & { readonly json?: true }

const WITHIN_MS = 2_000

export const observe: Command = (args, io) =>
  withArguments('observe', args, io, (parser, done) => {
    parser.description('What routes in mode observe would have done with the requests that they let pass.')
    parser
      .command('report')
      .description(
        'sums up what running sidecars have observed since their start, and ends with a routes file that enforces it; run it with the settings of a sidecar. Exit 0, or 69 where a sidecar did not answer',
      )
      .argument('[admin...]', `admin addresses of sidecars (default: ${DEFAULT_ADMIN})`)
      .option('-f, --file <path>', `YAML file with the routes, instead of ${CONFIG_FILE_ENV}`)
      .option('--json', 'as JSON')
      .action(async (admins: string[], options: Options) =>
        done(await report(admins.length === 0 ? [DEFAULT_ADMIN] : admins, options, io)),
      )
  })

async function report(admins: readonly string[], options: Options, io: Io): Promise<ExitCode> {
  const fault = faultOfAddress('the admin address', admins)
  if (fault !== undefined) return refused(io, fault)
  const loaded = load(options, io)
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  const answers = await Promise.all(admins.map(async (admin) => ({ admin, seen: await observedAt(admin) })))
  const silent = answers.flatMap(({ admin, seen }) => (seen === undefined ? [admin] : []))
  for (const admin of silent) io.stderr.write(`${printable(admin)} did not answer as a sidecar does.\n`)
  const known = answers.flatMap(({ seen }) => (seen === undefined ? [] : [seen]))
  if (known.length === 0) return EXIT.unavailable
  const all = createObservations()
  for (const seen of known) all.include(seen)
  const { observed, near_misses } = all.view()
  const [since = ''] = known.map((seen) => seen.since).toSorted()
  const { config } = loaded
  const routes = enforcingRoutes(config.routes, config, observed)
  io.stdout.write(
    options.json === true
      ? `${JSON.stringify({ since, sidecars: known.length, silent, observed, near_misses, routes }, undefined, 2)}\n`
      : `${textOf(since, known.length, { observed, near_misses })}\n# To enforce: these routes in ${CONFIG_FILE_ENV}, and ${SETTINGS.mode.env} not set.\n${textOfRoutes(routes)}`,
  )
  return silent.length === 0 ? EXIT.ok : EXIT.unavailable
}

function textOf(since: string, sidecars: number, { observed, near_misses }: ObservationsView): string {
  const head = `Observed by ${sidecars} ${sidecars === 1 ? 'sidecar' : 'sidecars'} since ${since}. Every request was executed.`
  const lines =
    observed.length === 0
      ? ['No route in mode observe had a request.']
      : observedSays(observed).flatMap((paragraph) => ['', ...paragraph])
  const missed =
    near_misses.length === 0 ? [] : ['', 'Near misses:', ...near_misses.map(({ says }) => `  ${says}`)]
  return `${[head, ...lines, ...missed].map(printable).join('\n')}\n`
}

/** What it says of itself. */
type ObservedBySidecar = ObservationsView & { readonly since: string }

async function observedAt(admin: string): Promise<ObservedBySidecar | undefined> {
  try {
    const answer = await fetch(new URL('/observed', admin), { signal: AbortSignal.timeout(WITHIN_MS) })
    const observed = (await answer.json()) as Partial<ObservedBySidecar>
    return answer.ok &&
      Array.isArray(observed.observed) &&
      Array.isArray(observed.near_misses) &&
      typeof observed.since === 'string'
      ? (observed as ObservedBySidecar)
      : undefined
  } catch {
    return undefined
  }
}
