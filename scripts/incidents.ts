/**
 * Plays five incidents against a real stack (five nodes, two sidecars, Prometheus with the rules,
 * clients) and checks that exactly the expected alerts fire. Writes the timeline to docs/operations/incidents.md.
 *
 * `npm run generate -- incidents` takes some four minutes: too long for every change, so it stands beside `npm test`.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { RESTART_SECONDS, shortenedRules } from '../dashboards/rules/shortened.ts'
import { type MonitoredStack, startMonitoredStack } from '../test/support/monitored-stack.ts'

/**
 * The whole stack shares one machine with other programs: nodes are given more time, and the readiness gate more
 * latency, than by default, so that only the incident makes nodes silent or slow.
 */
const PATIENT = {
  FENCEPOST_NODE_DEADLINE: '500ms',
  FENCEPOST_CLAIM_BUDGET: '500ms',
  FENCEPOST_READINESS_UNREADY_ABOVE: '1s',
  FENCEPOST_READINESS_READY_BELOW: '800ms',
}

/** Five minutes are played in ten seconds. */
const DIVISOR = 30
const root = join(import.meta.dirname, '..')
const PAGE = join(root, 'docs/operations/incidents.md')

type Incident = {
  readonly name: string
  readonly story: string
  readonly expected: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** Requests a second, and how often each identity comes. */
  readonly load: readonly [perSecond: number, copies: number]
  readonly play: (stack: MonitoredStack, says: (what: string) => void) => Promise<void>
}

const INCIDENTS: readonly Incident[] = [
  {
    name: 'One node down',
    story:
      'A node is killed, and started again with its data after 20 s. It has no vote before its quarantine is over.',
    expected: ['FencepostRedisNodeDown', 'FencepostRedisNodeRestarted'],
    load: [60, 3],
    play: async ({ servers }, says) => {
      await servers.kill(2)
      says('redis-2 killed')
      await pause(20_000)
      await servers.start(2)
      says('redis-2 started again')
      await pause(10_000)
    },
  },
  {
    name: 'Nodes slow',
    story: 'Three of five nodes stand still for 60 of every 80 ms: every claim has to wait for one of them.',
    expected: ['FencepostLockAcquireLatencyHigh'],
    load: [30, 3],
    play: async ({ servers }, says) => {
      const slow = [0, 1, 2]
      says('three nodes slow')
      const until = Date.now() + 40_000
      while (Date.now() < until) {
        for (const index of slow) servers.pause(index)
        await pause(60)
        for (const index of slow) servers.resume(index)
        await pause(20)
      }
      says('three nodes fast again')
      await pause(5_000)
    },
  },
  {
    name: 'Quorum lost',
    story:
      'Three of five nodes are killed for 25 s. What was under way then can neither be recorded nor renewed; what comes waits for its whole budget and is refused.',
    expected: [
      'FencepostQuorumLost',
      'FencepostQuorumSuccessRateLow',
      'FencepostQuorumErrorBudgetBurn',
      'FencepostRedisNodeDown',
      'FencepostRedisNodeRestarted',
      'FencepostLeaseRenewalFailures',
      'FencepostLeaseExpiredBeforeCompletion',
      'FencepostLockAcquireLatencyHigh',
    ],
    load: [40, 3],
    play: async ({ servers }, says) => {
      for (const index of [0, 1, 2]) await servers.kill(index)
      says('redis-0, redis-1 and redis-2 killed')
      await pause(25_000)
      for (const index of [0, 1, 2]) await servers.start(index)
      says('all nodes started again')
      await pause(8_000)
    },
  },
  {
    name: 'Renewals failing',
    story:
      'The application is slow, leases are short, and three nodes stand still for 6 s: what is held can’t be renewed.',
    expected: [
      'FencepostLeaseRenewalFailures',
      'FencepostLeaseExpiredBeforeCompletion',
      'FencepostQuorumLost',
      'FencepostQuorumSuccessRateLow',
      'FencepostQuorumErrorBudgetBurn',
    ],
    env: { FENCEPOST_LEASE: '4s', FENCEPOST_NODE_DEADLINE: '200ms', FENCEPOST_CLAIM_BUDGET: '200ms' },
    load: [20, 2],
    play: async ({ servers, application }, says) => {
      application.hold()
      says('the application holds its answers')
      await pause(3_000)
      for (const index of [0, 1, 2]) servers.pause(index)
      says('three nodes stand still')
      await pause(6_000)
      for (const index of [0, 1, 2]) servers.resume(index)
      application.letGo()
      says('nodes and application go on')
      await pause(8_000)
    },
  },
  {
    name: 'Retry storm',
    story:
      'Clients retry everything fifty times, ten times as fast as before. Nothing is wrong: nothing may fire.',
    expected: [],
    load: [20, 3],
    play: async (stack, says) => {
      await using _ = stack.load(300, 50)
      says('storm')
      await pause(30_000)
      says('storm over')
    },
  },
]

type Played = {
  readonly incident: Incident
  readonly lines: readonly string[]
  readonly fired: readonly string[]
}

async function play(incident: Incident, rules: string): Promise<Played> {
  await using stack = await startMonitoredStack([rules], { ...PATIENT, ...incident.env })
  await using _ = stack.load(...incident.load)
  const { prometheus } = stack
  await prometheus.until('rate(fencepost_decisions_total{outcome="acquired"}[4s]) > 0')
  // Alerts about nodes that have just been started are right, and not the incident.
  await pause((RESTART_SECONDS + 6) * 1_000)
  const began = Date.now()
  const seconds = (at: number) => `${((at - began) / 1_000).toFixed(0).padStart(3)} s`
  const happened: { at: number; text: string }[] = []
  await incident.play(stack, (what) => void happened.push({ at: Date.now(), text: what }))
  const firing = await prometheus.range(
    // Nobody is told of those that inform.
    'group by (alertname, severity) (ALERTS{alertstate="firing",severity!="info"})',
    began / 1_000,
    Date.now() / 1_000,
    1,
  )
  for (const { metric, values } of firing) {
    const name = `${metric.alertname} (${metric.severity})`
    happened.push({ at: (values[0]?.[0] ?? 0) * 1_000, text: `**${name}** fires` })
    const last = (values.at(-1)?.[0] ?? 0) * 1_000
    if (Date.now() - last > 2_000) happened.push({ at: last + 1_000, text: `${name} resolves` })
  }
  const lines = happened.sort((a, b) => a.at - b.at).map(({ at, text }) => `| ${seconds(at)} | ${text} |`)
  return {
    incident,
    lines,
    fired: [...new Set(firing.map(({ metric }) => metric.alertname as string))].sort(),
  }
}

// When ended from outside it ends the processes of the stack, too (test/support/processes.ts does it on `exit`).
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(1))

const folder = await mkdtemp(join(tmpdir(), 'fencepost-incidents-'))
try {
  const rules = join(folder, 'shortened.rules.yaml')
  const whole = await readFile(join(root, 'dashboards/rules/fencepost.rules.yaml'), 'utf8')
  await writeFile(rules, shortenedRules(whole, DIVISOR))
  // By name, to play one again: the page keeps the others as they were.
  const [only] = process.argv.slice(2)
  for (const incident of INCIDENTS.filter(({ name }) => only === undefined || name === only)) {
    const one = await play(incident, rules)
    console.log([incident.name, ...one.lines].join('\n'))
    const expected = [...incident.expected].sort()
    if (expected.join() !== one.fired.join()) {
      console.error(`${incident.name}: expected ${expected.join(', ')}; fired ${one.fired.join(', ')}`)
      process.exitCode = 1
    } else {
      await writeFile(PAGE, await pageWith(one))
    }
  }
} finally {
  await rm(folder, { recursive: true })
}

/** The page with this incident as it has just been played, and the others as they were played before. */
async function pageWith({ incident, lines }: Played): Promise<string> {
  const before = await readFile(PAGE, 'utf8').catch(() => '')
  const sections = new Map(
    before
      .split(/^## /m)
      .slice(1)
      .map((section) => [section.split('\n')[0], `## ${section.trimEnd()}\n`]),
  )
  sections.set(
    incident.name,
    `## ${incident.name}\n\n${incident.story}\n\n| after | what |\n|---|---|\n${lines.join('\n')}\n`,
  )
  const ordered = INCIDENTS.flatMap(({ name }) => sections.get(name) ?? [])
  return `# Incidents and their alerts

Written by \`npm run generate -- incidents\`: each incident was played against five nodes, two sidecars, Prometheus and
clients, all real; these alerts fired and no other. An incident stands here once it has been played with the alerts that
are expected. Durations of the rules were divided by ${DIVISOR}
(\`dashboards/rules/shortened.ts\`), so five minutes are ten seconds here; a restarted node is told of for ${RESTART_SECONDS} s.

${ordered.join('\n')}`
}
