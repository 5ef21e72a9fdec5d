/** What is done to the application and its sidecars while requests go on: rollouts, their end, scaling. */
import { randomUUID } from 'node:crypto'
import { eventually } from '../support/eventually.ts'
import { APPLICATION, NEXT_TAG } from './images.ts'
import type { Release } from './release.ts'
import type { Scenario } from './scenario.ts'

async function rolledOut(release: Release, name: string): Promise<void> {
  await release.kubectl('rollout', 'status', `deployment/${name}`, '--timeout=300s')
}

export const APPLICATION_SCENARIOS: readonly Scenario[] = [
  {
    name: 'rollout-application',
    what: 'The application gets another image.',
    failedMax: 0,
    run: async ({ release }) => {
      await release.kubectl('set', 'image', 'deployment/payments', `application=${APPLICATION}:1.1.0`)
      await rolledOut(release, 'payments')
      return 'Two replicas, one more while it rolls.'
    },
  },
  {
    name: 'rollout-sidecar',
    what: 'The sidecars of the application get another version.',
    failedMax: 0,
    run: async ({ release }) => {
      await release.upgradeApplication('--set', `fencepost.image.tag=${NEXT_TAG}`)
      await rolledOut(release, 'payments')
      return 'By `helm upgrade` with another tag of the same image.'
    },
  },
  {
    name: 'rollout-values',
    what: 'The service and the sidecars get another setting by `helm upgrade`.',
    failedMax: 0,
    run: async ({ release }) => {
      await release.upgrade('--set', 'settings.FENCEPOST_LEASE=45s')
      await release.upgradeApplication('--set', 'fencepost.settings.FENCEPOST_LEASE=45s')
      await Promise.all(['rel', 'payments'].map((name) => rolledOut(release, name)))
      return 'Both at once.'
    },
  },
  {
    name: 'end-of-pod',
    what: 'A pod is deleted while it works on a request of eight seconds: the application gets SIGTERM after five.',
    failedMax: 0,
    run: async ({ release }) => {
      const [pod] = await release.applicationPods()
      const name = pod?.metadata.name as string
      const finalizers = '{"metadata":{"finalizers":["fencepost.dev/looked-at"]}}'
      await release.kubectl('patch', 'pod', name, '--patch', finalizers)
      const url = `http://${pod?.status.podIP}:8080/payments`
      const headers = ['--header', `Idempotency-Key: ${randomUUID()}`, '--header', 'X-Pause-Ms: 8000']
      const long = release.cluster.run('curl', [
        '--silent',
        '--show-error',
        '--max-time',
        '30',
        '--write-out',
        '%{http_code}',
        '--data',
        '{}',
        ...headers,
        url,
      ])
      await release.kubectl('delete', 'pod', name, '--wait=false')
      const answer = await long
      const ended = async () => {
        const { status } = await release.get('pod', name)
        const all = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
        return (
          all.length === 2 &&
          all.every(({ state }) => state.terminated) &&
          all.map(({ state }) => state.terminated)
        )
      }
      const [sidecar, application] = await eventually('both containers have ended', ended, {
        withinMs: 90_000,
        everyMs: 250,
      })
      await release.kubectl('patch', 'pod', name, '--patch', '{"metadata":{"finalizers":null}}')
      if (!answer.endsWith('201')) throw new Error(`the request under way was answered ${answer}`)
      if (Date.parse(sidecar.finishedAt) < Date.parse(application.finishedAt))
        throw new Error(
          `the sidecar ended at ${sidecar.finishedAt}, before the application at ${application.finishedAt}`,
        )
      if (sidecar.exitCode !== 0) throw new Error(`the sidecar ended with ${sidecar.exitCode}`)
      return `It was answered 201; the application ended at ${application.finishedAt}, the sidecar at ${sidecar.finishedAt}, with 0.`
    },
  },
  {
    name: 'no-budget',
    what: 'Both pods of the application are evicted at once: it has no PodDisruptionBudget.',
    // Between the end of the old pods and the first new one that is ready nothing listens.
    failedMax: Number.POSITIVE_INFINITY,
    run: async ({ release }) => {
      const pods = await release.applicationPods()
      await Promise.all(pods.map(({ metadata }) => release.evict(metadata.name)))
      await rolledOut(release, 'payments')
      return 'Every eviction was granted; what failed was repeated by its client.'
    },
  },
  {
    name: 'scale-to-zero',
    what: 'The application is scaled to no pod, and back to two.',
    failedMax: Number.POSITIVE_INFINITY,
    run: async ({ release }) => {
      await release.kubectl('scale', 'deployment/payments', '--replicas=0')
      await eventually('no pod is left', async () => (await release.applicationPods()).length === 0, {
        withinMs: 120_000,
        everyMs: 250,
      })
      await release.kubectl('scale', 'deployment/payments', '--replicas=2')
      await rolledOut(release, 'payments')
      return 'What was sent meanwhile was repeated by its client, and executed once.'
    },
  },
]
