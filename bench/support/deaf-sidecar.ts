/**
 * The sidecar without telemetry: no metrics, no traces, no readiness gate, and of the log only that it serves. The
 * baseline for the cost of telemetry.
 */
import { readFileSync } from 'node:fs'
import process from 'node:process'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/load.ts'
import { deafTelemetry } from './deaf-telemetry.ts'

const readFile = (path: string): string => readFileSync(path, 'utf8')
const loaded = loadConfig(process.env, readFile)
if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
const app = await createApp(loaded.config, {
  version: 'deaf',
  nodeVersion: process.versions.node,
  hostname: 'bench',
  logTo: process.stdout,
  readFile,
  openTelemetry: deafTelemetry('info'),
})
process.once('SIGTERM', async () => {
  await app.drain()
  await app[Symbol.asyncDispose]()
})
