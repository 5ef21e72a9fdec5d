#!/usr/bin/env node
/**
 * The process: command line in, exit code out. The only file that touches `process`.
 */

import { readFileSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import process from 'node:process'
import { fileURLToPath } from 'node:url'
import { EXIT, type Io, type StopSignal } from './cli/command.ts'
import { program } from './cli/program.ts'
import { lastWords } from './core/fault.ts'

const STOP_SIGNALS: readonly StopSignal[] = ['SIGTERM', 'SIGINT']

const readFile = (path: string): string => readFileSync(path, 'utf8')
const { version } = JSON.parse(readFile(fileURLToPath(new URL('../package.json', import.meta.url)))) as {
  readonly version: string
}

const io: Io = {
  version,
  nodeVersion: process.versions.node,
  hostname: hostname(),
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  readFile,
  nodeOptions: [...process.execArgv, ...(process.env.NODE_OPTIONS ?? '').split(/\s+/)],
  onParentMessage: (listener) => {
    process.on('message', listener)
    // A listener keeps the channel referenced, and the channel the process: it would never end after its drain.
    process.channel?.unref()
  },
  signals: {
    onStop: (listener) => {
      for (const signal of STOP_SIGNALS) process.on(signal, listener)
      return () => {
        for (const signal of STOP_SIGNALS) process.off(signal, listener)
      }
    },
  },
}

// Node's own last words print the message and every property of the error: what a client sent, the command of a database
// client with its password. Whatever report is asked for (`--report-*`) must not list the environment either, nor stop the
// process to ask for the names of all its peers.
Object.assign(process.report, { excludeEnv: true, excludeNetwork: true })
process.on('uncaughtException', (fault) => {
  const told = lastWords(fault)
  writeSync(process.stderr.fd, told)
  if (process.report.reportOnUncaughtException) {
    const bare = new Error('left out')
    bare.stack = told
    process.report.writeReport(bare)
  }
  process.exit(EXIT.failure)
})

// `fencepost config print | head` closes the pipe early: nobody is left to tell anything to. What runs until it is told to
// stop is told so, once: a sidecar without a reader of its log still has requests to bring to their end.
let heard = true
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  if (!heard) return
  heard = false
  if (!process.emit('SIGTERM', 'SIGTERM')) process.exit(0)
})

// Set and not exited with: what is still open then is a defect to be seen, and output on pipes is not cut off.
process.exitCode = await program(process.argv.slice(2), io)
