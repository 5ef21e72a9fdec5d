#!/usr/bin/env node
/** The process of `fencepost-saga`: command line in, exit code out. The only file of the kit that touches `process`. */
import { readFileSync } from 'node:fs'
import process from 'node:process'
import { fencepostSaga } from './command.ts'

process.exitCode = await fencepostSaga(process.argv.slice(2), {
  env: process.env,
  stdout: process.stdout,
  stderr: process.stderr,
  readFile: (path) => readFileSync(path, 'utf8'),
  stopped: () =>
    new Promise((resolve) => {
      for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.once(signal, () => resolve())
    }),
})
