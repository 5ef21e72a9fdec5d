/**
 * The nodes get another image, one at a time, under load: a rolling update of their StatefulSet, done to processes.
 *
 * Each node in turn gets SIGTERM as from the kubelet, and when it has ended another build of the server is started at
 * its address with its volume, or with an empty one where a volume was lost. The next one follows only when `fencepost
 * nodes status` shows all of them voting, which is the condition that docs/operations/deploy.md names.
 */

import { copyFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startCountingApplication } from '../support/counting-application.ts'
import { eventually } from '../support/eventually.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { requireProgram } from '../support/programs.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { between, type Sidecar, startSidecar } from '../support/sidecar.ts'
import { Load, type Sent } from './load.ts'

const NODES = 5
const SIDECARS = 2
/** Its volume is lost on the way. */
const EMPTIED = 3
/** Of the first requests of all: each node has been changed since they were recorded. */
const ASKED_AGAIN = 200
/** Requests that must be answered between two steps, so that a fault is noticed. */
const REQUESTS_BETWEEN = 20

export type RollingOptions = {
  /** Of the sidecars, and of the command that looks at the nodes. */
  readonly settings: Readonly<Record<string, string>>
  /** How long a node may take until it votes again. */
  readonly votesWithinMs: number
  /** Which nodes are changed, one after another; default: all five. */
  readonly nodes?: readonly number[]
  readonly tell: (line: string) => void
}

export type RollingReport = {
  readonly sent: Sent
  readonly executed: number
  readonly executedTwice: readonly string[]
  /** Of each node: from its SIGTERM until all vote. */
  readonly rolledInMs: readonly number[]
  readonly lastsMs: number
}

export async function roll({
  settings,
  votesWithinMs,
  nodes = [0, 1, 2, 3, 4],
  tell,
}: RollingOptions): Promise<RollingReport> {
  const startedMs = performance.now()
  await using owned = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-rolling-'))
  owned.defer(() => rm(folder, { recursive: true, force: true }))
  const servers = owned.use(await startRedisServers(NODES, { appendOnly: true }))
  const application = owned.use(await startCountingApplication())
  const env = { ...settings, ...between(servers, application) }
  const sidecars: Sidecar[] = []
  for (let index = 0; index < SIDECARS; index += 1) sidecars.push(owned.use(await startSidecar(env)))
  // Another file is another program to the system, as it is in another image.
  const next = join(folder, 'redis-server-next')
  await copyFile(requireProgram('redis'), next)
  await untilAllVote(env, votesWithinMs)
  const load = owned.use(new Load(sidecars.map(({ proxy }) => proxy)))
  const rolledInMs: number[] = []
  for (const node of nodes) {
    await moreRequests(load)
    const tookMs = await rollOne(servers, node, next, () => untilAllVote(env, votesWithinMs), load)
    rolledInMs.push(tookMs)
    const volume = node === EMPTIED ? 'an empty volume' : 'its volume'
    tell(`redis-${node}: another image, ${volume}: votes again after ${Math.round(tookMs)} ms`)
  }
  await moreRequests(load)
  await load.stop()
  await load.askAgain(ASKED_AGAIN)
  return {
    sent: load.sent,
    executed: application.executions.length,
    executedTwice: load.keys.filter((key) => application.of(key).length !== 1),
    rolledInMs,
    lastsMs: performance.now() - startedMs,
  }
}

async function rollOne(
  servers: RedisServers,
  node: number,
  program: string,
  allVote: () => Promise<void>,
  load: Load,
): Promise<number> {
  const fromMs = performance.now()
  await servers.stop(node)
  await moreRequests(load)
  await servers.start(node, { program, emptied: node === EMPTIED })
  await allVote()
  return performance.now() - fromMs
}

async function moreRequests(load: Load): Promise<void> {
  const before = load.sent.requests
  await eventually('requests are answered', () => load.sent.requests >= before + REQUESTS_BETWEEN, {
    withinMs: 30_000,
  })
}

/** Looks as an operator would: by the command, in a process of its own. */
async function untilAllVote(env: Readonly<Record<string, string>>, withinMs: number): Promise<void> {
  await eventually('`fencepost nodes status` shows every node voting', () => allVote(env), { withinMs })
}

async function allVote(env: Readonly<Record<string, string>>): Promise<boolean> {
  await using looking = new TestProcess(process.execPath, [MAIN_PROGRAM, 'nodes', 'status', '--json'], {
    name: 'fencepost nodes status',
    env,
  })
  const { code } = await looking.exited
  if (code !== 0) return false
  const { nodes } = JSON.parse(looking.output) as { nodes: { state: string }[] }
  return nodes.length === NODES && nodes.every(({ state }) => state === 'voting')
}
