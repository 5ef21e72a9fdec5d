/** The sample of deploy/k8s/admission: which pods it refuses, with which sentence, and which it leaves alone. */
import type { Manifest } from '../support/kubernetes-objects.ts'
import type { Cluster } from './cluster.ts'
import { RESTRICTED } from './injection.ts'

const DIGEST = `@sha256:${'a'.repeat(64)}`

function pod(image: string, labels: Readonly<Record<string, string>>, sidecars: readonly object[]): Manifest {
  const container = { name: 'application', image, securityContext: RESTRICTED }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'payments', labels },
    spec: { containers: [container], initContainers: sidecars },
  }
}

const sidecar = (image: string) => ({
  name: 'fencepost',
  image,
  restartPolicy: 'Always',
  securityContext: RESTRICTED,
})
const PROTECTED = { 'fencepost.dev/protected': 'true' }
const GOOD = sidecar(`fencepost${DIGEST}`)

export async function checkAdmission(
  cluster: Cluster,
  folder: string,
  check: (sentence: string, of: () => Promise<unknown>) => Promise<void>,
) {
  await check('kubectl apply -k deploy/k8s/admission', () => cluster.apply(folder))
  await cluster.addNamespace('demanding')
  const earlier = pod('application:1', PROTECTED, [])
  await cluster.put({
    ...earlier,
    metadata: {
      ...earlier.metadata,
      name: 'earlier',
      namespace: 'demanding',
      finalizers: ['batch.kubernetes.io/job-tracking'],
    },
  })
  await cluster.label('demanding', 'fencepost.dev/demand=true')
  await cluster.addNamespace('indifferent')
  const bare = pod(`application${DIGEST}`, PROTECTED, [])
  await check('admission: the policy is in force', () => cluster.untilRefused('demanding', bare))
  await check('admission: a protected pod without the sidecar is refused', () =>
    cluster.refuses('demanding', bare, 'has no native sidecar called fencepost'),
  )
  const tagged = pod('application:1', PROTECTED, [sidecar('fencepost:1')])
  await check('admission: images by tag are refused, and all of them named', () =>
    cluster.refuses(
      'demanding',
      tagged,
      'another program: application application:1, fencepost fencepost:1.',
    ),
  )
  await check('admission: a protected pod with the sidecar, by digests, is admitted', () =>
    cluster.admitted('demanding', pod(`application${DIGEST}`, PROTECTED, [GOOD])),
  )
  await check('admission: a pod without the label is admitted', () =>
    cluster.admitted('demanding', pod('application:1', {}, [])),
  )
  await check('admission: a namespace without the label is left alone', () =>
    cluster.admitted('indifferent', pod('application:1', PROTECTED, [])),
  )
  const patched = (operation: object) =>
    cluster.kubectl(
      'demanding',
      'patch',
      'pod/earlier',
      '--type=json',
      `--patch=${JSON.stringify([operation])}`,
    )
  await check('admission: a pod from before gets no image by tag', () =>
    patched({ op: 'replace', path: '/spec/containers/0/image', value: 'application:2' }).then(
      () => Promise.reject(new Error('it was admitted')),
      (error: Error) => {
        if (!error.message.includes('has no native sidecar called fencepost')) throw error
      },
    ),
  )
  // Bug: no controller could take its finalizer off such a pod, so it never went away, and its Job never ended.
  await check('admission: a pod from before can be let go by its Job', () =>
    patched({ op: 'remove', path: '/metadata/finalizers' }),
  )
}
