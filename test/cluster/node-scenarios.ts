/** What is done to the nodes while requests go on: evictions, rollouts, deaths, lost volumes, a lost quorum. */
import { eventually } from '../support/eventually.ts'
import { isReady } from './cluster.ts'
import { NODES, type Release } from './release.ts'
import type { Scenario } from './scenario.ts'

const EVICTED_MS_MAX = 300_000
const QUORUM = 3

/** The API that `kubectl drain` uses; a refusal by the disruption budget is repeated at once. */
async function evicted(release: Release, pod: string): Promise<number> {
  let refused = 0
  const granted = () =>
    release.evict(pod).then(
      () => true,
      (error: Error) => {
        if (!error.message.includes('disruption budget')) throw error
        refused += 1
        return false
      },
    )
  await eventually(`the eviction of ${pod} is granted`, granted, { withinMs: EVICTED_MS_MAX, everyMs: 250 })
  return refused
}

async function nodePod(release: Release, name: string) {
  const pod = await release.get('pod', name)
  return { uid: pod.metadata.uid as string, ready: pod.status.conditions?.some(isReady) === true, pod }
}

/** The pod that was there is replaced by one that votes. @returns seconds until then */
async function untilVotes(
  release: Release,
  name: string,
  before: string,
  withinMs = 180_000,
): Promise<string> {
  const fromMs = performance.now()
  const votes = async () => {
    const { uid, ready } = await nodePod(release, name)
    return uid !== before && ready
  }
  await eventually(`${name} is another pod, and votes`, votes, { withinMs, everyMs: 250 })
  return ((performance.now() - fromMs) / 1_000).toFixed(0)
}

export const NODE_SCENARIOS: readonly Scenario[] = [
  {
    name: 'drain',
    what: 'Three of the five nodes are evicted one after another, each as soon as the API grants it.',
    failedMax: 0,
    votesMin: QUORUM,
    run: async ({ release }) => {
      const refused: number[] = []
      for (const name of NODES.slice(0, 3)) refused.push(await evicted(release, name))
      if (refused.slice(1).some((count) => count === 0))
        throw new Error(
          `an eviction was granted while another node did not vote: refused ${refused.join(', ')} times`,
        )
      return `The budget refused ${refused.join(', ')} times.`
    },
  },
  {
    name: 'rollout-nodes',
    what: '`kubectl rollout restart` of the StatefulSet of the nodes.',
    failedMax: 0,
    votesMin: QUORUM,
    run: async ({ release }) => {
      await release.kubectl('rollout', 'restart', 'statefulset/rel-redis')
      await release.kubectl('rollout', 'status', 'statefulset/rel-redis', '--timeout=600s')
      return 'It went on by itself, node by node.'
    },
  },
  {
    name: 'kill-node',
    what: 'The server of one node gets SIGKILL.',
    failedMax: 0,
    votesMin: QUORUM,
    run: async ({ release }) => {
      const before = await nodePod(release, NODES[1] as string)
      const [{ containerID, restartCount }] = before.pod.status.containerStatuses
      await release.cluster.kill(containerID.replace('containerd://', ''))
      const back = async () => {
        const { pod, ready } = await nodePod(release, NODES[1] as string)
        return ready && pod.status.containerStatuses[0].restartCount > restartCount
      }
      await eventually('the node is restarted, and votes', back, { withinMs: 180_000, everyMs: 250 })
      return 'The kubelet restarted it, with its volume.'
    },
  },
  {
    name: 'lose-volume',
    what: 'One node loses its pod and its volume.',
    failedMax: 0,
    votesMin: QUORUM,
    run: async ({ release }) => {
      const name = NODES[3] as string
      const { uid } = await nodePod(release, name)
      await release.kubectl('delete', 'pvc', `data-${name}`, '--wait=false')
      await release.kubectl('delete', 'pod', name)
      return `The empty node voted ${await untilVotes(release, name, uid)} s later, after its quarantine.`
    },
  },
  {
    name: 'lose-quorum',
    what: 'The StatefulSet is scaled to two nodes, and back to five.',
    // Nothing can be executed without a majority.
    failedMax: Number.POSITIVE_INFINITY,
    run: async ({ release }) => {
      const ready = async () =>
        (await release.applicationPods()).filter(({ status }) => status.conditions.some(isReady))
      await release.kubectl('scale', 'statefulset/rel-redis', '--replicas=2')
      await eventually('no pod of the application is ready', async () => (await ready()).length === 0, {
        withinMs: 120_000,
        everyMs: 250,
      })
      await release.kubectl('scale', 'statefulset/rel-redis', '--replicas=5')
      const vote = async () =>
        (await Promise.all(NODES.map((name) => nodePod(release, name)))).filter((node) => node.ready)
          .length >= QUORUM
      await eventually('three nodes vote', vote, { withinMs: 180_000, everyMs: 250 })
      const fromMs = performance.now()
      await eventually('both pods of the application are ready', async () => (await ready()).length === 2, {
        withinMs: 120_000,
        everyMs: 250,
      })
      return `Without a quorum no pod was ready; both were ${((performance.now() - fromMs) / 1_000).toFixed(0)} s after three nodes voted.`
    },
  },
]
