/**
 * The cast of a fault run: five nodes, sidecars that reach each of them over a link of their own, the application, and a
 * wall clock for every process.
 *
 * Owns starting, restarting and ending them. `faults.ts` has the faults.
 */

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { eventually } from '../support/eventually.ts'
import type { TestProcess } from '../support/processes.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'
import { type FaultApplication, startFaultApplication } from './application.ts'
import { compileClockShim, ShiftedClock } from './clock-shim.ts'
import { type FaultLink, startFaultLink } from './fault-proxy.ts'

export const NODES = 5

/** Short, so that a run sees many leases end; deadlines are the largest that such a lease allows. */
export const LEASE_MS = 4_000
export const SETTINGS = {
  // Each sidecar reaches the nodes through links of its own.
  FENCEPOST_REDIS_NODE_NAMES: 'redis-0,redis-1,redis-2,redis-3,redis-4',
  FENCEPOST_LEASE: `${LEASE_MS}ms`,
  FENCEPOST_RESERVATION_MAX_LEASE: `${LEASE_MS}ms`,
  FENCEPOST_NODE_DEADLINE: '200ms',
  FENCEPOST_REDIS_CONNECT_TIMEOUT: '1s',
  FENCEPOST_CLAIM_BUDGET: '1s',
  FENCEPOST_SETTLE_BUDGET: '1s',
  FENCEPOST_UPSTREAM_TIMEOUT: '3s',
  FENCEPOST_UPSTREAM_BODY_TIMEOUT: '1s',
  FENCEPOST_TOTAL_HOLD: '60s',
  // A sidecar an hour behind must not make keys wait for an hour (F17).
  FENCEPOST_CLOCK_TOKEN_AHEAD: '10s',
  FENCEPOST_OUTCOME_CACHE: '0B',
} as const

/** How long a node that forgot has no vote with these settings, the copying after it included. */
export const QUARANTINE_MS = LEASE_MS * 1.01 + 2 + 1_000

/** Every operation is answered within this: claim, application and settling at their limits, on a busy machine. */
export const ANSWER_WITHIN_MS = 15_000

/** Of the one operator of a run. */
export const OPERATOR_TOKEN = 'canary-operator-7d0c95b2e81f46a3c9'

const BLOCK_ON_SIGNAL = new URL('block-on-signal.mjs', import.meta.url).href

export type StageOptions = {
  readonly sidecars?: number
  readonly main?: string
  /** Lines of redis.conf, by node. */
  readonly redisConfig?: (node: number) => readonly string[]
  readonly settings?: Readonly<Record<string, string>>
  /** With a listener for operators, and an application that can be asked. An earlier build may not know the setting. */
  readonly operated?: boolean
  readonly fraction?: () => number
}

export type Exit = { readonly process: string; readonly how: string; readonly expected: boolean }

export class Stage implements AsyncDisposable {
  readonly folder: string
  readonly servers: RedisServers
  readonly application: FaultApplication
  readonly nodeClocks: readonly ShiftedClock[]
  readonly sidecarClocks: readonly ShiftedClock[]
  /** By sidecar, then node. */
  readonly links: readonly (readonly FaultLink[])[]
  readonly sidecars: Sidecar[] = []
  /** Straight to the nodes, past every fault of the network. */
  readonly admin: readonly Redis[]
  readonly logs: string[]
  readonly exits: Exit[] = []
  readonly #options: StageOptions
  /** The build and the further settings with which sidecars start. */
  #main: string | undefined
  #settings: Readonly<Record<string, string>> = {}

  constructor(
    options: StageOptions,
    parts: Pick<
      Stage,
      'folder' | 'servers' | 'application' | 'nodeClocks' | 'sidecarClocks' | 'links' | 'admin'
    >,
  ) {
    this.#options = options
    this.#main = options.main
    this.folder = parts.folder
    this.servers = parts.servers
    this.application = parts.application
    this.nodeClocks = parts.nodeClocks
    this.sidecarClocks = parts.sidecarClocks
    this.links = parts.links
    this.admin = parts.admin
    this.logs = parts.links.map(() => '')
  }

  get sidecarCount(): number {
    return this.links.length
  }

  link(sidecar: number, node: number): FaultLink {
    const link = this.links[sidecar]?.[node]
    if (link === undefined) throw new RangeError(`no link from sidecar ${sidecar} to node ${node}`)
    return link
  }

  /** The links of all sidecars to one node. */
  linksTo(node: number): readonly FaultLink[] {
    return this.links.map((_, sidecar) => this.link(sidecar, node))
  }

  sidecar(index: number): Sidecar {
    const sidecar = this.sidecars[index]
    if (sidecar === undefined) throw new RangeError(`no sidecar ${index}`)
    return sidecar
  }

  async startSidecar(index: number, main = this.#main): Promise<void> {
    const nodes = this.links[index]?.map((link) => `redis://127.0.0.1:${link.port}`).join(',') ?? ''
    this.sidecars[index] = await startSidecar(
      {
        ...SETTINGS,
        ...this.#options.settings,
        ...this.#settings,
        ...this.sidecarClocks[index]?.env,
        FENCEPOST_REDIS_NODES: nodes,
        FENCEPOST_UPSTREAM: this.application.url,
        ...(this.#options.operated === true ? operatedIn(this.folder) : {}),
        FENCEPOST_INSTANCE: `sidecar-${index}`,
        NODE_OPTIONS: `--import=${BLOCK_ON_SIGNAL}`,
        BLOCK_FOR_MS: String(2 * LEASE_MS),
      },
      {
        // The machine may be busy: the start time is not the subject.
        startWithinMs: 60_000,
        ...(main === undefined ? {} : { main }),
        onOutput: (text) => {
          this.logs[index] += text
        },
      },
    )
    const child = this.sidecar(index).process
    void child.exited.then(({ code, signal }) => {
      const expected = this.#wanted.delete(child)
      this.exits.push({ process: `sidecar-${index}`, how: signal ?? `code ${code}`, expected })
    })
  }

  readonly #wanted = new Set<unknown>()

  /** At once, from within a listener of its bytes. */
  killSidecar(index: number): void {
    this.expectEnd(index).signal('SIGKILL')
  }

  /** The test is about to end it. */
  expectEnd(index: number): TestProcess {
    const child = this.sidecar(index).process
    this.#wanted.add(child)
    return child
  }

  /** Ends a sidecar on purpose. */
  async endSidecar(index: number, signal: NodeJS.Signals): Promise<void> {
    const child = this.expectEnd(index)
    await child.end({ signal, withinMs: 30_000 })
  }

  /** @param how from now on: another build, further settings. @param meanwhile while none runs */
  async restartSidecars(
    how: { readonly main?: string; readonly settings?: Readonly<Record<string, string>> } = {},
    meanwhile: () => Promise<unknown> = async () => {},
  ): Promise<void> {
    this.#main = how.main ?? this.#main
    this.#settings = how.settings ?? this.#settings
    await Promise.all(this.sidecars.map((_, index) => this.endSidecar(index, 'SIGKILL')))
    await meanwhile()
    await Promise.all(this.links.map((_, index) => this.startSidecar(index)))
    await this.ready()
  }

  /** Waits until every sidecar sees at least this many voting nodes. */
  async ready(votes = NODES, withinMs = 60_000): Promise<void> {
    for (const index of this.sidecars.keys()) {
      await eventually(
        `sidecar ${index} to see ${votes} voting nodes`,
        async () => (await this.votingNodes(index)) >= votes,
        { withinMs, everyMs: 100 },
      )
    }
  }

  async votingNodes(index: number): Promise<number> {
    return this.metric(index, /^fencepost_quorum_reachable_nodes(?:\{.*\})? (\d+)/m)
  }

  async metric(index: number, pattern: RegExp): Promise<number> {
    const answer = await fetch(`${this.sidecar(index).admin}/metrics`, { signal: AbortSignal.timeout(2_000) })
    return Number(pattern.exec(await answer.text())?.[1] ?? 0)
  }

  /** @param how `args`: further words for its command line, for this run of the process only */
  async restartNode(
    index: number,
    how: { readonly emptied?: boolean; readonly args?: readonly string[] } = {},
  ): Promise<void> {
    await this.servers.start(index, how)
  }

  /** Heals paths, clocks and processes; restarts the ended ones. */
  async heal(): Promise<void> {
    for (const link of this.links.flat()) link.heal()
    for (const clock of [...this.nodeClocks, ...this.sidecarClocks]) if (clock.offsetMs !== 0) clock.set(0)
    for (const index of this.servers.urls.keys()) {
      if (this.servers.at(index).process.running) this.servers.resume(index)
      else await this.restartNode(index)
    }
    for (const [index, sidecar] of this.sidecars.entries()) {
      if (sidecar.process.running) sidecar.process.signal('SIGCONT')
      else await this.startSidecar(index)
    }
    if (!this.application.process.running) await this.application.restart()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const client of this.admin) client.disconnect()
    for (const { process } of this.sidecars) this.#wanted.add(process)
    await Promise.allSettled(this.sidecars.map(({ process }) => process.end({ signal: 'SIGKILL' })))
    await Promise.allSettled([this.application[Symbol.asyncDispose](), this.servers[Symbol.asyncDispose]()])
    await Promise.allSettled(this.links.flat().map((link) => link[Symbol.asyncDispose]()))
    for (const clock of [...this.nodeClocks, ...this.sidecarClocks]) clock[Symbol.dispose]()
    await rm(this.folder, { recursive: true, force: true })
  }
}

function tokensFileIn(folder: string): string {
  return join(folder, 'operators')
}

function operatedIn(folder: string) {
  return {
    FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
    FENCEPOST_OPERATOR_TOKENS_FILE: tokensFileIn(folder),
    // The application of the run says what it knows once an operator opens its books (`books.ts`).
    FENCEPOST_SETTLE_PATH: '/settle',
    FENCEPOST_SWEEP_INTERVAL: '2s',
  }
}

export async function openStage(options: StageOptions = {}): Promise<Stage> {
  const sidecarCount = options.sidecars ?? 3
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-faults-'))
  await writeFile(tokensFileIn(folder), `operator operate ${OPERATOR_TOKEN}\n`, { mode: 0o600 })
  const shim = compileClockShim(folder)
  const nodeClocks = Array.from(
    { length: NODES },
    (_, index) => new ShiftedClock(shim, folder, `node-${index}`),
  )
  const sidecarClocks = Array.from(
    { length: sidecarCount },
    (_, index) => new ShiftedClock(shim, folder, `sidecar-${index}`),
  )
  const servers = await startRedisServers(NODES, {
    ...(options.redisConfig === undefined ? {} : { config: options.redisConfig }),
    env: (index) => nodeClocks[index]?.env ?? {},
  })
  const application = await startFaultApplication(join(folder, 'executions.jsonl'))
  const links = await Promise.all(
    Array.from({ length: sidecarCount }, () =>
      Promise.all(servers.urls.map((url) => startFaultLink(Number(new URL(url).port), options.fraction))),
    ),
  )
  const admin = servers.urls.map((url) => {
    const client = new Redis(url, { maxRetriesPerRequest: 1, retryStrategy: () => 200 })
    client.on('error', () => {})
    return client
  })
  const stage = new Stage(options, { folder, servers, application, nodeClocks, sidecarClocks, links, admin })
  try {
    // The first founds the cluster, the others find it.
    for (const index of links.keys()) await stage.startSidecar(index)
    await stage.ready()
    return stage
  } catch (cause) {
    await stage[Symbol.asyncDispose]()
    throw cause
  }
}
