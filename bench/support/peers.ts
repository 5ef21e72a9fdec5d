/**
 * The programs that a benchmark runs beside ours, each a process of its own: the application, a bare proxy, and packages
 * of npm, which are installed into `bench/peers` from a lock file of their own so that the project does not depend on them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { startedIn } from '../../test/support/memory-cgroup.ts'
import { TestProcess } from '../../test/support/processes.ts'

const peers = join(import.meta.dirname, '../peers')

/** Installs `bench/peers`, where they are missing or another version than that of their lock file. */
export function installPeers(): void {
  const installed = join(peers, 'node_modules/.package-lock.json')
  const versions = (file: string) => {
    const { packages } = JSON.parse(readFileSync(file, 'utf8')) as {
      packages: Record<string, { version?: string }>
    }
    return JSON.stringify(
      Object.entries(packages).flatMap(([name, { version }]) => (name === '' ? [] : [`${name}@${version}`])),
    )
  }
  if (existsSync(installed) && versions(installed) === versions(join(peers, 'package-lock.json'))) return
  console.error('installing the peers of bench/peers/package-lock.json (npm ci) …')
  const done = spawnSync('npm', ['ci', '--ignore-scripts', '--loglevel=error'], {
    cwd: peers,
    stdio: 'inherit',
  })
  if (done.status !== 0) throw new Error('npm ci in bench/peers failed; its output says why')
}

export function peerVersion(name: string): string {
  return (
    JSON.parse(readFileSync(join(peers, 'node_modules', name, 'package.json'), 'utf8')) as { version: string }
  ).version
}

export type Server = AsyncDisposable & {
  readonly url: string
  /** Its processes. */
  readonly pids: readonly number[]
}

export function startBenchApplication(): Promise<Server> {
  return listening(join(import.meta.dirname, 'application.ts'), [])
}

/** @param joins the `cgroup.procs` of the cgroup that it starts in */
export function startFastifyHttpProxy(upstream: string, joins?: string): Promise<Server> {
  return listening(join(peers, 'http-proxy.mjs'), [upstream], joins)
}

/** A page of Fastify, redlock and undici over the same nodes: what it lacks stands at its head. */
export function startNaiveQuorum(
  upstream: string,
  nodes: readonly string[],
  mode: 'plain' | 'autopipeline',
  joins?: string,
): Promise<Server> {
  return listening(join(peers, 'naive-quorum.mjs'), [upstream, nodes.join(','), mode], joins)
}

async function listening(program: string, args: readonly string[], joins?: string): Promise<Server> {
  const [command, ...rest] = startedIn(joins, [process.execPath, program, ...args])
  const child = new TestProcess(command, rest)
  const [, port] = await child.line(/^listening on (\d+)$/, { withinMs: 60_000 })
  return serverOf(child, `http://127.0.0.1:${port}`)
}

function serverOf(child: TestProcess, url: string): Server {
  return {
    url,
    pids: [child.pid],
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}
