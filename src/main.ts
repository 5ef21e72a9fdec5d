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
import { logFile } from './cli/log-file.ts'
import { program } from './cli/program.ts'
import { lastWords } from './core/fault.ts'

/** SIGHUP, too: whoever sends it to have files read again, or closes the terminal, must not cut off what is under way. */
const STOP_SIGNALS: readonly StopSignal[] = ['SIGTERM', 'SIGINT', 'SIGHUP']

const readFile = (path: string): string => readFileSync(path, 'utf8')
const { version } = JSON.parse(readFile(fileURLToPath(new URL('../package.json', import.meta.url)))) as {
  readonly version: string
}

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

const io: Io = {
  version,
  nodeVersion: process.versions.node,
  hostname: hostname(),
  memoryLimitBytes: limitOf(process.constrainedMemory()),
  env: process.env,
  stdout: process.stdout,
  logTo: isFile(STDOUT) ? logFile((bytes) => writeSync(STDOUT, bytes)) : process.stdout,
  stderr: process.stderr,
  readFile,
  readBytes: (path) => readFileSync(path),
  nodeOptions: [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)],
  onParentMessage: (listener) => {
    process.on('message', listener)
    // A listener keeps the channel referenced, and the channel keeps the process alive: it would never end after its
    // drain.
    process.channel?.unref()
  },
  signals: {
    onStop: (listener) => {
      for (const signal of STOP_SIGNALS) process.on(signal, listener)
      return () => {
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
process.on('uncaughtException', (fault) => {
  const report = lastWords(fault)
  writeSync(process.stderr.fd, report)
  if (process.report.reportOnUncaughtException) {
    const bare = new Error('left out')
    bare.stack = report
    process.report.writeReport(bare)
  }
  process.exit(EXIT.failure)
})

// `fencepost config print | head` closes the pipe early: the output has no reader left. A command that runs until
// stopped gets one SIGTERM: a sidecar without a reader of its log still has requests to finish.
let hasReader = true
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  if (!hasReader) return
  hasReader = false
  if (!process.emit('SIGTERM', 'SIGTERM')) process.exit(0)
})

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
  writeSync(
    process.stderr.fd,
    `fencepost had finished and did not end within ${END_WITHIN_MS} ms, because of what was still open: ${open}\n`,
  )
  process.exit()
}, END_WITHIN_MS).unref()
