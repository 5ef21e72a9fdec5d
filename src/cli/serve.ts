/**
 * `fencepost serve`: reads the configuration, runs the sidecar until a signal stops it, drains, exits 0.
 */

import { StartRefused } from '../app/start-refused.ts'
import { type App, createApp } from '../app.ts'
import { loadConfig } from '../config/load.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  type Io,
  refused,
  refusedConfig,
  withArguments,
} from './command.ts'

export const serve: Command = (args, io) =>
  withArguments('serve', args, io, (parser, done) => {
    parser
      .description('runs the sidecar; settings come from FENCEPOST_* variables and FENCEPOST_CONFIG')
      .action(async () => done(await run(io)))
  })

/** Options of Node that write its memory to a file, or expose it to a debugger. */
const WRITES_MEMORY = /^--(heapsnapshot|heap-prof|inspect|abort-on-uncaught-exception)/

async function run(io: Io): Promise<ExitCode> {
  const loaded = loadConfig(io.env, io.readFile)
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  for (const option of io.nodeOptions.filter((one) => WRITES_MEMORY.test(one)))
    io.stderr.write(
      `${option.replace(/=.*$/, '')} is given: Node may write its memory out, secrets included (docs/operations/security.md)\n`,
    )
  const stopped = new Promise<void>((resolve) => {
    const forget = io.signals.onStop(() => {
      // A second signal ends the process at once.
      forget()
      resolve()
    })
  })
  // It may come while the sidecar still starts.
  const left = new Promise<void>((resolve) => io.signals.onLeave(resolve))
  let app: App
  try {
    const { version, nodeVersion, hostname, memoryLimitBytes, logTo, readFile } = io
    app = await createApp(loaded.config, {
      version,
      nodeVersion,
      hostname,
      memoryLimitBytes,
      logTo,
      readFile,
      serviceName: io.env.OTEL_SERVICE_NAME,
      resourceAttributes: io.env.OTEL_RESOURCE_ATTRIBUTES,
      leaveOpen: io.leaveOpen,
    })
  } catch (cause) {
    if (!(cause instanceof StartRefused)) throw cause
    return refused(io, cause.message, EXIT.configuration)
  }
  await using running = app
  io.onParentMessage((message) => {
    const index = (message as { stopEmbeddedNode?: unknown }).stopEmbeddedNode
    if (typeof index === 'number') running.stopEmbeddedNode(index)
  })
  void left.then(() => running.leave())
  await stopped
  await running.drain()
  return EXIT.ok
}
