/**
 * The sidecar without telemetry: no metrics, no traces, no readiness gate, and of the log only that it serves. The
 * baseline for the cost of telemetry.
 */
import { readFileSync } from 'node:fs'
import process from 'node:process'
import type { openTelemetry, Telemetry } from '../../src/app/telemetry.ts'
import { createApp } from '../../src/app.ts'
import { loadConfig } from '../../src/config/load.ts'
import { SILENT } from '../../src/core/events.ts'
import { UNTRACED } from '../../src/core/tracing.ts'
import { createLog } from '../../src/observe/log.ts'

const deaf: typeof openTelemetry = async (_, { instance, logTo }): Promise<Telemetry> => ({
  log: createLog({ level: 'info', instance, destination: logTo }),
  events: SILENT,
  tracing: UNTRACED,
  tracedNode: (node) => node,
  tell: () => {},
  readiness: ({ nodes }) => ({ ready: true, reasons: [], nodes }),
  verdict: () => ({ ready: true, reasons: [], failing: new Set(), sentences: new Map(), p95Ms: undefined }),
  scrape: async () => ({ contentType: 'text/plain', text: '' }),
  start: () => {},
  [Symbol.asyncDispose]: async () => {},
})

const readFile = (path: string): string => readFileSync(path, 'utf8')
const loaded = loadConfig(process.env, readFile)
if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
const app = await createApp(loaded.config, {
  version: 'deaf',
  nodeVersion: process.versions.node,
  hostname: 'bench',
  logTo: process.stdout,
  readFile,
  openTelemetry: deaf,
})
process.once('SIGTERM', async () => {
  await app.drain()
  await app[Symbol.asyncDispose]()
})
