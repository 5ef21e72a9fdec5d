/** Numbers and texts of the values, as they arrive in arguments and in texts of CEL. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'
import { podOf } from '../support/kubernetes-objects.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

function rendered(values: object) {
  const file = join(charts.folder, 'values.json')
  const open = { service: { tokenSecret: 'token' }, redis: { bundled: { openToAll: true } } }
  writeFileSync(file, JSON.stringify({ ...open, ...values }))
  return charts.rendered('fencepost', ['--values', file])
}

// Bug: the policy had the number, where Kubernetes takes text: no pod that asked for the sidecar could be created.
test('the memory of sidecars by annotation may be a number', () => {
  const resources = { requests: { cpu: 1, memory: 268435456 }, limits: { memory: '384Mi' } }
  const [policy] = rendered({ injection: { enabled: true, resources } }).filter(
    ({ kind }) => kind === 'MutatingAdmissionPolicy',
  )
  const given = Object.fromEntries(
    (policy.spec.variables as { name: string; expression: string }[]).map(({ name, expression }) => [
      name,
      expression,
    ]),
  )
  expect(given).toMatchObject({ cpuRequest: '"1"', memoryRequest: '"268435456"', memoryLimit: '"384Mi"' })
})

// Bug: a rate of a million was 1e+06, and a tenant that ends with a colon a mapping instead of an argument.
test('the arguments of the probe are as they were given', () => {
  const probe = { enabled: true, rate: 1_000_000, copies: 2_000_000, tenant: 'shop:' }
  const named = rendered({ probe }).filter(({ metadata }) => metadata.name === 'rel-probe')
  const [container] = podOf(named.find(({ kind }) => kind === 'Deployment')).containers
  expect(container.args).toEqual(
    expect.arrayContaining(['--tenant=shop:', '--rate=1000000', '--copies=2000000']),
  )
})
