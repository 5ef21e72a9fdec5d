#!/usr/bin/env node
/**
 * The process: command line in, exit code out. The only file that touches `process`.
 */

import { fstatSync, readFileSync, writeSync } from 'node:fs'
import { hostname, totalmem } from 'node:os'
import process from 'node:process'
import { isatty } from 'node:tty'
import { fileURLToPath } from 'node:url'
import { EXIT, type Io, type StopSignal } from './cli/command.ts'
import { logFile, textOf } from './cli/files.ts'
import { program } from './cli/program.ts'
import { lastWords } from './core/fault.ts'

/** SIGHUP, too: whoever sends it to have files read again, or closes the terminal, must not cut off what is under way. */
const STOP_SIGNALS: readonly StopSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP']

const readFile = (path: string): string => textOf(readFileSync(path))
const { version, engines } = JSON.parse(
  readFile(fileURLToPath(new URL('../package.json', import.meta.url))),
) as { readonly version: string; readonly engines: { readonly node: string } }

/** Without a limit, Linux states a number that no machine has. */
function limitOf(constrainedBytes: number): number | undefined {
  return constrainedBytes > 0 && constrainedBytes < totalmem() ? constrainedBytes : undefined
}

/** As Node tells what is a file from pipes, sockets and terminals. */
function isFile(descriptor: number): boolean {
  const stats = fstatSync(descriptor)
  return stats.isFile() || (stats.isCharacterDevice() && !isatty(descriptor))
}

const STDOUT = 1

/** Whether the command has work of its own until it is stopped: its end is the end of that work. */
let runsUntilStopped = false

let leftOpen = false

const io: Io = {
  version,
  nodeVersion: process.versions.node,
  oldestNode: engines.node.replace('>=', ''),
  hostname: hostname(),
  memoryLimitBytes: limitOf(process.constrainedMemory()),
  env: process.env,
  stdout: process.stdout,
  logTo: isFile(STDOUT) ? logFile((bytes) => writeSync(STDOUT, bytes)) : process.stdout,
  stderr: process.stderr,
  readFile,
  readBytes: (path) => readFileSync(path),
  nodeOptions: [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)],
  leaveOpen: () => {
    leftOpen = true
  },
  onParentMessage: (listener) => {
    process.on('message', listener)
    // A listener keeps the channel referenced, and the channel keeps the process alive: it would never end after its
    // drain.
    process.channel?.unref()
  },
  signals: {
    onStop: (listener) => {
      runsUntilStopped = true
      for (const signal of STOP_SIGNALS) process.on(signal, listener)
      return () => {
        // A terminal that is closed sends it several times, by its shell and by the kernel: only another signal is a second wish.
        process.on('SIGHUP', () => {})
        for (const signal of STOP_SIGNALS) process.off(signal, listener)
      }
    },
    // Kept for good: without a listener a second signal would end the process.
    onLeave: (listener) => void process.on('SIGUSR2', listener),
  },
}

// Node's own report of a fault prints the message and every property of the error: a client's request, a database
// client's command with its password. A report (`--report-*`) must not list the environment either, nor stop the
// process to resolve the names of all its peers.
Object.assign(process.report, { excludeEnv: true, excludeNetwork: true })

/** At once, also where the process is about to end; nobody may be left to hear it. */
function say(text: string): void {
  try {
    writeSync(process.stderr.fd, text)
  } catch {
    // There is no other place to say it.
  }
}

process.on('uncaughtException', (fault) => {
  const report = lastWords(fault)
  say(report)
  if (process.report.reportOnUncaughtException) {
    const bare = new Error('left out')
    bare.stack = report
    process.report.writeReport(bare)
  }
  process.exit(EXIT.failure)
})

// `fencepost config print | head` closes the pipe early: the output has no reader left. A command that runs until
// stopped is told to stop, once: a sidecar without a reader of its log (a pipe or a terminal that has gone) still has requests to finish.
// Where it is stopping already, by the Ctrl-C that ended the reader, too, it goes on with that.
let hasReader = true
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (!runsUntilStopped) {
    if (error.code === 'EPIPE') process.exit(EXIT.ok)
    throw error
  }
  if (hasReader) process.emit('SIGTERM', 'SIGTERM')
  hasReader = false
})
// What can not be said there is no reason to end otherwise.
process.stderr.on('error', () => {})

/** Far above what a reader of the log needs for the last lines, and far below the grace period of a pod. */
const END_WITHIN_MS = 5_000

process.exitCode = await program(process.argv.slice(2), io)

// The event loop runs empty first: output that a slow reader of a pipe has not taken yet keeps it going, so no line is cut off. Then
// the process exits at once, because Node can spin for ever in its own cleanup of handles (nodejs/node#47748), and the kubelet would
// kill it only after the grace period.
process.once('beforeExit', (code) => process.exit(code))

// A handle that is still open is a defect. It is named, and does not keep the process either.
setTimeout(() => {
  const open = process.getActiveResourcesInfo().join(', ')
  say(
    `fencepost had finished and did not end within ${END_WITHIN_MS} ms, because of what was still open: ${open}\n`,
  )
  process.exit()
}, END_WITHIN_MS).unref()

// Each calls back when all that was written before is taken.
if (leftOpen) {
  for (const stream of [process.stdout, process.stderr])
    await new Promise<void>((resolve) => stream.write('', () => resolve()))
  process.exit()
}
