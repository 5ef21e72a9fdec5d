/** A release whose service gets an autoscaler by `helm upgrade`: as many pods serve as before, until it decides. */
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { renderedAmong } from '../support/lookup-api.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const SCALED = 'service.tokenSecret=token,redis.bundled.openToAll=true,service.autoscaling.enabled=true'

/** What the Deployment states, where there is one with so many pods already. */
async function statedReplicas(replicas: number | undefined): Promise<unknown> {
  const service = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'rel', namespace: 'shop' },
    spec: { replicas },
  }
  const objects = replicas === undefined ? [] : [service]
  const manifests = await renderedAmong(objects, charts.folder, 'fencepost', ['--set', SCALED])
  return manifests.find(({ kind }) => kind === 'Deployment')?.spec.replicas
}

/**
 * Bug: the Deployment stated no replicas any more. What Helm wrote before and does not write again it takes away, and without it there is one pod: seven of
 * eight were ended at once, and the autoscaler had to start them again.
 */
test('the pods that there are stay, within the bounds of the autoscaler', async () => {
  expect(await statedReplicas(8)).toBe(8)
  expect(await statedReplicas(40)).toBe(10)
  expect(await statedReplicas(0)).toBe(3)
})

test('a new release leaves them to the autoscaler', async () => {
  expect(await statedReplicas(undefined)).toBeUndefined()
})
