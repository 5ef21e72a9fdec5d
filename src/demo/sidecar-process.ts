/**
 * A sidecar of the demonstration: `fencepost serve` as its own process, on free ports, with its output kept.
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

const START_DEADLINE_MS = 20_000
const POLL_MS = 5

/** No request is in flight when the demonstration ends, so a drain takes moments; a sidecar that hangs is killed. */
const DRAIN_DEADLINE_MS = 10_000

/** With the words of the sidecar. */
export class SidecarNotReady extends Error {
  override readonly name = 'SidecarNotReady'
}

/**
 * @throws SidecarNotReady where it ends, or is not ready within 20 s
 * @param env overrides the demonstration's own environment
 */
export async function startSidecar(
  env: Readonly<Record<string, string | undefined>>,
  ports: { readonly proxy: number; readonly admin: number },
) {
  const startedMs = performance.now()
  const main = new URL(import.meta.url.endsWith('.ts') ? '../main.ts' : '../main.js', import.meta.url)
  const child = fork(main, ['serve'], {
    env: {
      ...env,
      FENCEPOST_PROXY_LISTEN: `127.0.0.1:${ports.proxy}`,
      FENCEPOST_ADMIN_LISTEN: `127.0.0.1:${ports.admin}`,
      FENCEPOST_API_LISTEN: 'off',
      FENCEPOST_LOG_LEVEL: 'warn',
      // All processes share this machine, perhaps with a build: a slow moment must not look like lost nodes.
      FENCEPOST_NODE_DEADLINE: '500ms',
      FENCEPOST_CLAIM_BUDGET: '5s',
    },
    execArgv: [],
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
  })
  const output: string[] = []
  child.stdout?.on('data', (part: Buffer) => output.push(part.toString()))
  child.stderr?.on('data', (part: Buffer) => output.push(part.toString()))
  const adminUrl = `http://127.0.0.1:${ports.admin}`
  try {
    await ready(child, `${adminUrl}/readyz`, startedMs)
  } catch (cause) {
    await end(child)
    throw new SidecarNotReady(`${cause instanceof Error ? cause.message : cause}\n${output.join('')}`)
  }
  return {
    proxyUrl: `http://127.0.0.1:${ports.proxy}`,
    adminUrl,
    /** From starting the process to open listeners. */
    startUpMs: performance.now() - startedMs,
    metrics: async () => (await fetch(`${adminUrl}/metrics`)).text(),
    stopEmbeddedNode: (index: number) => child.send({ stopEmbeddedNode: index }),
    [Symbol.asyncDispose]: () => end(child),
  }
}

async function ready(child: ChildProcess, url: string, startedMs: number): Promise<void> {
  while (performance.now() - startedMs < START_DEADLINE_MS) {
    if (child.exitCode !== null) throw new Error(`the sidecar ended with exit code ${child.exitCode}`)
    const answer = await fetch(url).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer?.status === 200) return
    await sleep(POLL_MS)
  }
  throw new Error(`the sidecar was not ready within ${START_DEADLINE_MS} ms`)
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGTERM')
  const overdue = setTimeout(() => child.kill('SIGKILL'), DRAIN_DEADLINE_MS)
  await exited
  clearTimeout(overdue)
}
