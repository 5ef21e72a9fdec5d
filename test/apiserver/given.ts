/**
 * What the pods are given by objects of somebody else: `helm upgrade` changes their template, and so replaces them, exactly where one of these
 * has changed. Only a cluster shows it, because Helm looks them up there.
 */
import type { Cluster } from './cluster.ts'

const NAMESPACE = 'given'
const NODES = ['a', 'b', 'c'].map((host) => `rediss://${host}.example:6380`)
const VALUES = [
  'service.tokenSecret=fencepost-token',
  'redis.mode=external',
  'redis.nodesFrom.configMap=nodes',
  'redis.nodesFrom.key=all',
  'redis.username=fencepost',
  'redis.passwordSecret=password',
  'redis.caSecret=authority',
].flatMap((value) => ['--set', value])

type Given = { readonly nodes: string; readonly password: string; readonly authority: string }

export async function checkGiven(
  cluster: Cluster,
  chart: string,
  check: (sentence: string, of: () => Promise<unknown>) => Promise<void>,
) {
  await cluster.addNamespace(NAMESPACE)
  const metadata = (name: string) => ({ name, namespace: NAMESPACE })
  const give = async ({ nodes, password, authority }: Given) => {
    await cluster.put({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: metadata('nodes'),
      data: { all: nodes, other: 'x' },
    })
    for (const [name, stringData] of [
      ['password', { password }],
      ['authority', { 'ca.crt': authority }],
    ] as const)
      await cluster.put({ apiVersion: 'v1', kind: 'Secret', metadata: metadata(name), stringData })
  }
  const first: Given = { nodes: NODES.join(','), password: 'first', authority: 'first' }
  await give(first)
  await check('given: helm install with nodes from a ConfigMap', () =>
    cluster.helm(NAMESPACE, 'install', 'rel', chart, ...VALUES),
  )
  const templateAfter = async (): Promise<string> => {
    await cluster.helm(NAMESPACE, 'upgrade', 'rel', chart, ...VALUES)
    return JSON.stringify((await cluster.deployed(NAMESPACE, 'rel')).template)
  }
  const before = await templateAfter()
  await check('given: an upgrade with the same nodes, password and authority replaces no pod', async () => {
    if ((await templateAfter()) !== before) throw new Error('the template of the pods has changed')
  })
  for (const [what, now] of [
    ['nodes', { ...first, nodes: NODES.toReversed().join(',') }],
    ['password', { ...first, password: 'second' }],
    ['authority', { ...first, authority: 'second' }],
  ] as const)
    await check(`given: an upgrade with another ${what} replaces the pods, and back again`, async () => {
      await give(now)
      if ((await templateAfter()) === before) throw new Error('the template of the pods is the same')
      await give(first)
      if ((await templateAfter()) !== before) throw new Error('the template of the pods is not as it was')
    })
}
