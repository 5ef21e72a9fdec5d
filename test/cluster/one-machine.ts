/**
 * What the only machine of the cluster asks for, where lines of the documents are run as they stand, without values of their own: the
 * API server takes the rule out of the pods of nodes that no two of them stand on one machine, and gives sidecars more time where others
 * use the machine, too.
 */
import { eventually } from '../support/eventually.ts'
import type { Cluster } from './cluster.ts'
import { PATIENT_SETTINGS, type Patience } from './release.ts'

const API = 'admissionregistration.k8s.io/v1'
const IN_FORCE_MS_MAX = 60_000

/** A policy, and its binding. */
function policy(name: string, when: string, mutation: object): object[] {
  const metadata = { name: `${name}.cluster.test` }
  return [
    {
      apiVersion: API,
      kind: 'MutatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        reinvocationPolicy: 'Never',
        matchConstraints: {
          resourceRules: [
            { apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] },
          ],
        },
        matchConditions: [{ name: 'is-meant', expression: when }],
        mutations: [mutation],
      },
    },
    {
      apiVersion: API,
      kind: 'MutatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: metadata.name },
    },
  ]
}

/** A container of that name and kind gets settings beside its own. */
function withSettings(kind: 'containers' | 'initContainers'): object[] {
  const type = `Object.spec.${kind}`
  const settings = Object.entries(PATIENT_SETTINGS).map(
    ([name, value]) => `${type}.env{name: '${name}', value: '${value}'}`,
  )
  return policy(
    `patient-${kind.toLowerCase()}`,
    `object.spec.?${kind}.orValue([]).exists(c, c.name == 'fencepost')`,
    {
      patchType: 'ApplyConfiguration',
      applyConfiguration: {
        expression: `Object{spec: Object.spec{${kind}: [${type}{name: 'fencepost', env: [${settings.join(', ')}]}]}}`,
      },
    },
  )
}

export async function allowOneMachine(cluster: Cluster, { patient }: Patience): Promise<void> {
  const together = policy('one-machine', 'has(object.spec.affinity)', {
    patchType: 'JSONPatch',
    jsonPatch: { expression: "[JSONPatch{op: 'remove', path: '/spec/affinity'}]" },
  })
  const settings = patient ? [...withSettings('containers'), ...withSettings('initContainers')] : []
  // The last one, so that all are in force where it is.
  await cluster.apply(...settings, ...together)
  const asked = JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'asked', namespace: 'default' },
    spec: { affinity: { podAntiAffinity: {} }, containers: [{ name: 'fencepost', image: 'none' }] },
  })
  // The server compiles a policy when it sees it: until then it changes nothing.
  const changed = async () => {
    const said = await cluster.run('kubectl', ['create', '--dry-run=server', '-o', 'json', '-f', '-'], asked)
    const { affinity, containers } = JSON.parse(said).spec
    return affinity === undefined && (!patient || containers[0].env !== undefined)
  }
  await eventually('the API server changes pods', changed, { withinMs: IN_FORCE_MS_MAX, everyMs: 250 })
}
