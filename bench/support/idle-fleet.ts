/**
 * Many idle sidecars in one process: the whole composition of a sidecar without its listeners and its own metrics, so that a thousand
 * of them cost this machine little beside what they ask of the nodes.
 *
 * What reaches the nodes is what every idle sidecar sends: polls, heartbeats, the campaign for leadership, synthetic claims.
 */
import process from 'node:process'
import { startReadinessTimers } from '../../src/app/readiness.ts'
import type { openTelemetry, Telemetry } from '../../src/app/telemetry.ts'
import { type App, createApp } from '../../src/app.ts'
import { type Config, loadConfig } from '../../src/config/load.ts'
import { SILENT } from '../../src/core/events.ts'
import { createReadinessGate } from '../../src/core/health/readiness.ts'
import { deafTelemetry } from './deaf-telemetry.ts'

/** Started at once; each warms its claims up. */
const AT_ONCE = 4

/** @param nodesSetting of nodes that are founded */
export async function startIdleFleet(count: number, nodesSetting: string): Promise<AsyncDisposable> {
  const running = new AsyncDisposableStack()
  const config = configOf(nodesSetting)
  let begun = 0
  const worker = async () => {
    for (let index = begun++; index < count; index = begun++)
      running.use(await startOne(config, `idle-${index}`))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
  return running
}

function configOf(nodesSetting: string): Config {
  const loaded = loadConfig(
    {
      FENCEPOST_REDIS_NODES: nodesSetting,
      FENCEPOST_PROXY_LISTEN: 'off',
      FENCEPOST_API_LISTEN: 'off',
      FENCEPOST_ADMIN_LISTEN: 'off',
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '10s',
      FENCEPOST_NODE_DEADLINE: '1s',
      FENCEPOST_CLAIM_BUDGET: '5s',
    },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  return loaded.config
}

function startOne(config: Config, hostname: string): Promise<App> {
  return createApp(config, {
    version: 'bench',
    nodeVersion: process.versions.node,
    hostname,
    logTo: { write: () => {} },
    readFile: () => '',
    openTelemetry: lightTelemetry,
  })
}

/** Readiness with its timers, as every sidecar has it, and nothing that is counted or written. */
const lightTelemetry: typeof openTelemetry = async (config, ports): Promise<Telemetry> => {
  const { instance, clock, random } = ports
  const gate = createReadinessGate({ ...config, quorumGate: 'enforce' }, { clock, random })
  let timers: Disposable | undefined
  return {
    ...(await deafTelemetry('error')(config, ports)),
    start: (groups) => {
      timers = startReadinessTimers(gate, groups, config, { instance, clock, random, events: SILENT })
    },
    [Symbol.asyncDispose]: async () => timers?.[Symbol.dispose](),
  }
}
