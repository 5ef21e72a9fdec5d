/** What a newcomer does with the installed chart: its test, its notes, and the sidecar by annotation. */
import { randomUUID } from 'node:crypto'
import { eventually } from '../support/eventually.ts'
import { APPLICATION } from './images.ts'
import { NAMESPACE, type Release } from './release.ts'
import type { Scenario } from './scenario.ts'

/** The commands that the notes give: indented by two, with their continued lines. */
function commandsIn(notes: string): string[] {
  return notes
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => /^ {2}(TOKEN=|kubectl |curl |helm )/.test(line))
    .map((line) => line.trim())
}

async function runNotes({ cluster }: Release): Promise<string> {
  const notes = await cluster.helm('--namespace', NAMESPACE, 'get', 'notes', 'rel')
  const commands = commandsIn(notes).filter((line) => !line.startsWith('helm '))
  if (commands.length !== 3)
    throw new Error(`the notes give ${commands.length} commands beside helm test:\n${notes}`)
  const [token, forward, curl] = commands as [string, string, string]
  const retrying = curl.replace(
    'curl ',
    'curl --silent --show-error --fail --retry 20 --retry-delay 1 --retry-connrefused ',
  )
  const script = [token, forward, 'trap "kill $!" EXIT', retrying].join('\n')
  return cluster.run('sh', ['-euc', script])
}

const RESTRICTED = {
  allowPrivilegeEscalation: false,
  runAsNonRoot: true,
  capabilities: { drop: ['ALL'] },
  seccompProfile: { type: 'RuntimeDefault' },
}

function askingPod(name: string): object {
  const annotations = { 'fencepost.dev/inject': 'true', 'fencepost.dev/upstream-port': '3000' }
  // As the documents say: through fencepost, which shows that the whole way of a request is open.
  const readinessProbe = { httpGet: { path: '/health', port: 8080 }, periodSeconds: 1 }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: NAMESPACE, annotations },
    spec: {
      containers: [
        { name: 'application', image: `${APPLICATION}:1.0.0`, securityContext: RESTRICTED, readinessProbe },
      ],
    },
  }
}

async function pay({ cluster }: Release, podIP: string, key: string): Promise<string> {
  const options = ['--silent', '--include', '--max-time', '10', '--data', '{}']
  return cluster.run('curl', [
    ...options,
    '--header',
    `Idempotency-Key: ${key}`,
    `http://${podIP}:8080/payments`,
  ])
}

export const INSTALLATION_SCENARIOS: readonly Scenario[] = [
  {
    name: 'helm-test',
    what: '`helm test`: the self-test and the doctor, on the nodes of the release.',
    failedMax: 0,
    quiet: true,
    run: async ({ release }) => {
      await release.test()
      return 'Both succeeded.'
    },
  },
  {
    name: 'notes',
    what: 'The commands of the release’s notes, as they stand.',
    failedMax: 0,
    quiet: true,
    run: async ({ release }) => {
      const answer = await runNotes(release)
      if (!answer.includes('reservation_id')) throw new Error(`the reservation was answered ${answer}`)
      return 'A reservation was granted.'
    },
  },
  {
    name: 'injection',
    what: 'A pod asks for the sidecar by annotation.',
    failedMax: 0,
    quiet: true,
    run: async ({ release }) => {
      await release.upgrade('--set', 'injection.enabled=true')
      // The server compiles a policy when it sees it: until then it adds nothing.
      let attempt = 0
      const injected = async () => {
        attempt += 1
        const name = `asking-${attempt}`
        await release.cluster.apply(askingPod(name))
        if ((await release.get('pod', name)).spec.initContainers?.[0].name === 'fencepost') return name
        await release.kubectl('delete', 'pod', name, '--now')
        return undefined
      }
      const name = await eventually('a pod gets the sidecar', injected, { withinMs: 60_000, everyMs: 500 })
      try {
        await release.kubectl('wait', '--for=condition=Ready', `pod/${name}`, '--timeout=120s')
        const { status } = await release.get('pod', name)
        const key = randomUUID()
        const [first, second] = [await pay(release, status.podIP, key), await pay(release, status.podIP, key)]
        if (!/^HTTP\/1.1 201/.test(first)) throw new Error(`the first request was answered ${first}`)
        if (!/^Idempotency-Status: replayed/im.test(second))
          throw new Error(`the duplicate was answered ${second}`)
      } finally {
        await release.kubectl('delete', 'pod', name)
        await release.upgrade('--set', 'injection.enabled=false')
      }
      return 'It was executed once, and its duplicate replayed.'
    },
  },
]
