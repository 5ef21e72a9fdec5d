/** `fencepost doctor`: what is not well with this installation, one line each, with what to do. It changes nothing. */

import { installation } from '../app/doctor.ts'
import { loadConfig } from '../config/load.ts'
import { diagnose, type Finding, failed } from '../core/health/diagnostics.ts'
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
import { printable } from './terminal.ts'

type Options = { readonly json?: true; readonly admin?: string }

export const doctor: Command = (args, io) =>
  withArguments('doctor', args, io, (parser, done) => {
    parser
      .description(
        'Looks at the nodes, their clocks, memory and independence, at certificates, the application, versions and rules, and changes nothing. One line each: ok, warning, failed or unknown, and what to do. Exit 0 where nothing failed, 69 without a majority, else 1.',
      )
      .option('--admin <address>', `admin listener of a running sidecar (default: ${DEFAULT_ADMIN})`)
      .option('--json', 'as JSON')
      .action(async (options: Options) => done(await run(options, io)))
  })

async function run({ json, admin = DEFAULT_ADMIN }: Options, io: Io): Promise<ExitCode> {
  const fault = faultOfAddress('--admin', [admin])
  if (fault !== undefined) return refused(io, fault)
  const loaded = loadConfig(io.env, io.readFile)
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  if (loaded.config.redisNodes.kind === 'embedded')
    return refused(io, 'FENCEPOST_REDIS_NODES is `embedded`: there are no nodes outside the sidecar.')
  const builtIn = loaded.origins.routes === 'default'
  const findings = diagnose(await installation(loaded.config, { admin, version: io.version, builtIn }))
  io.stdout.write(json === true ? `${JSON.stringify({ findings }, undefined, 2)}\n` : linesOf(findings))
  if (!failed(findings)) return EXIT.ok
  return findings.some(({ check, verdict }) => check === 'quorum' && verdict === 'failed')
    ? EXIT.unavailable
    : EXIT.failure
}

function linesOf(findings: readonly Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  return findings
    .map(({ verdict, check, says }) => `${verdict.padEnd(7)}  ${check.padEnd(width)}  ${printable(says)}\n`)
    .join('')
}
