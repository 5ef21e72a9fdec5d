/** The component of deploy/k8s/sidecar in the kustomization of somebody's own application. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { folderOfTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX, fetchProgram } from '../support/fetched-programs.ts'
import { kustomized, podOf } from '../support/kubernetes-objects.ts'

const folder = folderOfTests('component')
const component = join(import.meta.dirname, '../../deploy/k8s/sidecar')

beforeAll(() => fetchProgram('kustomize'), FETCH_MS_MAX)

/** The pod of an application with these fields of its own, once it has the sidecar. */
async function podWith(own: object) {
  mkdirSync(folder, { recursive: true })
  const labels = { app: 'shop' }
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'shop', labels: { 'fencepost.dev/sidecar': 'true' } },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: 'shop', image: 'shop:1' }], ...own },
      },
    },
  }
  const components = [relative(folder, component)]
  writeFileSync(join(folder, 'deployment.yaml'), stringify(deployment))
  writeFileSync(join(folder, 'kustomization.yaml'), stringify({ resources: ['deployment.yaml'], components }))
  return podOf((await kustomized(folder))[0])
}

/**
 * Bug: it set both for every pod. An application that takes ten minutes to end was killed after one, at its work, and one that reads the variables of Services
 * found none.
 */
test('an application keeps its grace period and the variables of Services', async () => {
  const own = { terminationGracePeriodSeconds: 600, enableServiceLinks: true }
  expect(await podWith(own)).toMatchObject(own)
})

test('the sidecar starts before the init containers of the application, which may need it', async () => {
  const pod = await podWith({ initContainers: [{ name: 'migrate', image: 'shop:1' }] })
  expect(pod.initContainers.map(({ name }: { name: string }) => name)).toEqual(['fencepost', 'migrate'])
})
