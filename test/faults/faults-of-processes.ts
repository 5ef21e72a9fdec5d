/**
 * F17, F22 to F26, F37: faults of sidecars.
 *
 * The named points of F22 are found from outside, so production code has no switches: the log of the application shows
 * what reached it, and the links see the messages between a sidecar and its nodes, where the names of answers
 * (`granted`, `recorded`) are readable. The sidecar is killed as such bytes arrive, before they are handed on.
 */

import { execFileSync } from 'node:child_process'
import { eventually } from '../support/eventually.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import type { Mode } from './application.ts'
import { type Fault, type FaultContext, pause } from './fault.ts'
import { monoMs } from './history.ts'
import { LEASE_MS, SETTINGS } from './stage.ts'

/** The last sidecar is the victim; the others take over. */
function victimOf({ stage }: FaultContext): number {
  return stage.sidecarCount - 1
}

async function carriedOut({ stage }: FaultContext, key: string): Promise<void> {
  await eventually(
    `${key} to reach the application`,
    () => stage.application.executions().some((one) => one.key === key),
    { withinMs: 25_000 },
  )
}

/**
 * Waits until the victim executes requests: the fault before may have opened its breakers, and a refused request
 * reaches no point at which to kill the sidecar.
 */
async function serving(context: FaultContext): Promise<void> {
  const { clients, demand, freshKey } = context
  await demand('a sidecar serves when the fault before it has passed', LEASE_MS + 10_000, async () => {
    const answer = await clients.submit({ sidecar: victimOf(context), key: freshKey() })
    return answer.type === 'ok' && answer.status === 201
  })
}

/** Resolves when at least `count` nodes have answered the victim with the word; `then` runs while the bytes still wait. */
function whenAnswered(
  context: FaultContext,
  word: string,
  count: number,
  then: () => void,
): { forget(): void } {
  const links = context.stage.links[victimOf(context)] ?? []
  const heard = new Set<number>()
  for (const [node, link] of links.entries()) {
    link.onBytes = ({ direction, bytes }) => {
      if (direction !== 'back' || !bytes.includes(word)) return
      heard.add(node)
      if (heard.size === count) then()
    }
  }
  return {
    forget: () => {
      for (const link of links) link.onBytes = undefined
    },
  }
}

/** Another sidecar answers the request, from the record or by an execution after the lease. */
async function takenOver(context: FaultContext, key: string, script: readonly Mode[]): Promise<void> {
  const { clients, demand } = context
  let before: string | undefined
  await demand('a request of a killed sidecar is answered within a lease', LEASE_MS + 10_000, async () => {
    const again = await clients.submit({ sidecar: 0, key, script })
    if (again.type === 'ok') before = again.says
    return again.type === 'ok' && again.status === 201
  })
  if (before === 'replayed') context.history.saw('a replay after a crash')
}

type Kill = (context: FaultContext, key: string, kill: () => void) => Promise<void>

function killed(id: string, point: string, script: readonly Mode[], how: string, act: Kill): Fault {
  return {
    id,
    what: `a sidecar is killed ${point}`,
    how,
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, freshKey } = context
      const victim = victimOf(context)
      await serving(context)
      const key = freshKey()
      let kills = 0
      const kill = () => {
        kills += 1
        stage.killSidecar(victim)
      }
      const sent = clients.submit({ sidecar: victim, key, script })
      await act(context, key, kill)
      await Promise.race([stage.sidecar(victim).process.exited, pause(5_000)])
      for (const link of stage.links[victim] ?? []) {
        link.onBytes = undefined
        // Its held bytes die with their sender.
        link.reset()
        link.heal()
      }
      if (kills === 0) kill()
      await sent
      await takenOver(context, key, script)
      await stage.endSidecar(victim, 'SIGKILL')
      await stage.startSidecar(victim)
      return kills
    },
  }
}

function holdAll(context: FaultContext, nodes: readonly number[] = [0, 1, 2, 3, 4]): void {
  for (const node of nodes) context.stage.link(victimOf(context), node).set({ hold: 'out' })
}

export const FAULTS_OF_PROCESSES: readonly Fault[] = [
  ...(
    [
      ['a', '+1 h', 3_600_000],
      ['b', '-1 h', -3_600_000],
    ] as const
  ).map(
    ([letter, step, offsetMs]): Fault => ({
      id: `F17${letter}`,
      what: `the clock of a sidecar: ${step}`,
      how: 'preloaded library shifts its wall clock',
      // A step forward ends leases early, by its own wall clock.
      mayLoseLease: true,
      inject: async ({ stage, fraction }) => {
        const clock = stage.sidecarClocks[Math.floor(fraction() * stage.sidecarCount)]
        clock?.set(offsetMs)
        await pause(2_500)
        clock?.set(0)
        return 1
      },
    }),
  ),
  killed(
    'F22a',
    'before it has sent anything',
    [],
    'its links hold what it sends; SIGKILL',
    async (context, _key, kill) => {
      holdAll(context)
      await pause(100)
      kill()
    },
  ),
  killed(
    'F22b',
    'after the grant',
    [],
    'SIGKILL as the third `granted` passes its link',
    async (context, _key, kill) => {
      const seen = whenAnswered(context, 'granted', 3, kill)
      await pause(1_000)
      seen.forget()
    },
  ),
  killed(
    'F22c',
    'while the application works',
    ['slow:1500'],
    'SIGKILL when the log of the application shows the request',
    async (context, key, kill) => {
      await carriedOut(context, key)
      kill()
    },
  ),
  killed(
    'F22d',
    'after the answer of the application, before its record',
    ['slow:1500'],
    'its links hold what it sends from the execution on; SIGKILL after the answer',
    async (context, key, kill) => {
      await carriedOut(context, key)
      holdAll(context)
      await pause(2_200)
      kill()
    },
  ),
  killed(
    'F22e',
    'between the second and the third node of the record',
    ['slow:1500'],
    'links to three nodes hold; SIGKILL as the second `recorded` passes',
    async (context, key, kill) => {
      await carriedOut(context, key)
      holdAll(context, [2, 3, 4])
      const seen = whenAnswered(context, 'recorded', 2, kill)
      await pause(3_000)
      seen.forget()
    },
  ),
  killed(
    'F22f',
    'after the record, before its client has the answer',
    ['slow:1500'],
    'SIGKILL as the third `recorded` passes its link',
    async (context, key, kill) => {
      await carriedOut(context, key)
      const seen = whenAnswered(context, 'recorded', 3, kill)
      await pause(3_000)
      seen.forget()
    },
  ),
  {
    id: 'F23',
    what: 'a sidecar stands still for longer than its lease, with the answer of the application waiting',
    how: 'SIGSTOP while the application works, another sidecar takes over, SIGCONT',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, freshKey, history } = context
      const victim = victimOf(context)
      await serving(context)
      const key = freshKey()
      const first = clients.submit({ sidecar: victim, key, script: ['slow:300'] })
      await carriedOut(context, key)
      stage.sidecar(victim).process.signal('SIGSTOP')
      await takenOver(context, key, ['slow:300'])
      stage.sidecar(victim).process.signal('SIGCONT')
      const late = await first
      if (late.type === 'ok' && late.says !== 'created') history.saw('a late holder is refused')
      return 1
    },
  },
  {
    id: 'F24',
    what: 'the event loop of a sidecar is blocked for two leases',
    how: 'a module given with --import spins on SIGUSR2',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, freshKey } = context
      const victim = victimOf(context)
      await serving(context)
      const key = freshKey()
      const first = clients.submit({ sidecar: victim, key, script: ['slow:300'] })
      await carriedOut(context, key)
      stage.sidecar(victim).process.signal('SIGUSR2')
      await takenOver(context, key, ['slow:300'])
      await first
      return 1
    },
  },
  {
    id: 'F25a',
    what: 'a sidecar is told to end under load',
    how: 'SIGTERM, restart when it has drained',
    mayLoseLease: true,
    inject: async (context) => {
      const victim = victimOf(context)
      await context.stage.endSidecar(victim, 'SIGTERM')
      await context.stage.startSidecar(victim)
      return 1
    },
  },
  {
    id: 'F25b',
    what: 'a sidecar is told to end, and killed while it drains',
    how: 'SIGTERM, SIGKILL 100 ms later',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage } = context
      const victim = victimOf(context)
      const ending = stage.endSidecar(victim, 'SIGTERM')
      await pause(100)
      stage.killSidecar(victim)
      await ending
      await stage.startSidecar(victim)
      return 1
    },
  },
  {
    id: 'F26a',
    what: 'a sidecar has no file descriptors left',
    how: 'prlimit --nofile=40, of which it has most open, for 2 s',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage } = context
      const { pid } = stage.sidecar(victimOf(context)).process
      const prlimit = (...args: readonly string[]) =>
        execFileSync('prlimit', ['--pid', String(pid), ...args], { encoding: 'utf8' }).trim()
      // The soft limit alone: only root may raise the hard limit again.
      const soft = prlimit('--nofile', '--output=SOFT', '--noheadings')
      prlimit('--nofile=40:')
      await pause(2_000)
      prlimit(`--nofile=${soft}:`)
      return 1
    },
  },
  {
    id: 'F26b',
    what: 'a sidecar gets no more memory, and ends by it',
    how: 'prlimit --data below what it has, while the application works; another sidecar takes over',
    mayLoseLease: true,
    inject: async (context) => {
      const { stage, clients, freshKey } = context
      const victim = victimOf(context)
      await serving(context)
      const key = freshKey()
      const first = clients.submit({ sidecar: victim, key, script: ['slow:300'] })
      await carriedOut(context, key)
      const child = stage.expectEnd(victim)
      execFileSync('prlimit', ['--pid', String(child.pid), '--data=1048576:'])
      // Every request needs memory, and a body is held until it is complete; one that is too large is never executed. Memory
      // that was used before can be used again, so the load doubles until that is not enough.
      const untilMs = monoMs() + 15_000
      for (let atOnce = 20; child.running && monoMs() < untilMs; atOnce = Math.min(2 * atOnce, 320))
        await Promise.all(
          Array.from({ length: atOnce }, () =>
            Promise.all([
              clients.submit({ sidecar: victim, key: freshKey() }),
              clients.sendTooLarge(victim, freshKey()),
            ]),
          ),
        )
      const ended = !child.running
      await stage.endSidecar(victim, 'SIGKILL')
      await first
      await takenOver(context, key, ['slow:300'])
      await stage.startSidecar(victim)
      return ended ? 1 : 0
    },
  },
  {
    id: 'F37',
    what: 'a sidecar is configured with one server twice, or with four nodes',
    how: 'started beside the others; it must end with 78 and say why',
    inject: async ({ stage, demand }) => {
      const [first = '', ...others] = stage.servers.urls
      for (const nodes of [
        [first, first, ...others.slice(0, 3)],
        [first, ...others.slice(0, 3)],
      ]) {
        await using child = new TestProcess(process.execPath, [MAIN_PROGRAM, 'serve'], {
          env: {
            ...SETTINGS,
            FENCEPOST_REDIS_NODES: nodes
              .map((url, at) => (at === 1 ? url.replace('127.0.0.1', 'localhost') : url))
              .join(),
            FENCEPOST_PROXY_LISTEN: 'off',
            FENCEPOST_API_LISTEN: 'off',
            FENCEPOST_ADMIN_LISTEN: 'off',
          },
        })
        const exit = await child.exited
        await demand(
          'a cluster of fewer nodes than it seems is refused with 78',
          1,
          async () => exit.code === 78,
        )
      }
      return 2
    },
  },
]
