/** The nodes with TLS and users of deploy/k8s/nodes-tls-acl, and the line with which runbooks.md reaches them. The last page: it takes the nodes away. */
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { makeAuthority } from '../../support/certificates.ts'
import { eventually } from '../../support/eventually.ts'
import { codeBehind, lineOf } from '../../support/page-lines.ts'
import type { Reader } from '../reader.ts'
import { mustSee, type PageScenario } from './page-scenario.ts'

const RUNBOOKS = 'docs/operations/runbooks.md'
const ANSWERED_MS_MAX = 180_000
const NODES = 'deploy/k8s/nodes-tls-acl'

const onNode = lineOf(RUNBOOKS, 'kubectl -n fencepost exec fencepost-redis-0')
export const COMMAND_ON_NODE = codeBehind(RUNBOOKS, 'To run a command on a node (')
const USERS = codeBehind(RUNBOOKS, 'of nodes with users with ')
const TLS = codeBehind(RUNBOOKS, 'of nodes with TLS with ')

/** As the kustomization asks for them. */
async function secrets(reader: Reader, operator: string): Promise<void> {
  using authority = makeAuthority()
  const nodes = authority.sign('fencepost-redis')
  const password = randomUUID()
  const example = await readFile(join(reader.folder, NODES, 'users.acl.example'), 'utf8')
  const users = example
    .replace('replace-this-password', password)
    .replace('replace-this-other-password', operator)
  const files = {
    'fencepost-redis-tls': { 'tls.crt': nodes.cert(), 'tls.key': nodes.key(), 'ca.crt': authority.ca() },
    'fencepost-redis-users': { 'users.acl': users },
    'fencepost-redis-login': { password },
  }
  for (const [name, stringData] of Object.entries(files))
    await reader.cluster.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: 'fencepost' },
      stringData,
    })
}

async function readTls(reader: Reader): Promise<string> {
  const password = randomUUID()
  await secrets(reader, password)
  await reader.cluster.kubectl('--namespace', 'fencepost', 'delete', 'statefulset', 'fencepost-redis')
  await reader.cluster.kubectl('apply', '-k', join(reader.folder, NODES))
  const asked = (input: string) =>
    reader.run(onNode, { 'valkey-cli': `valkey-cli ${USERS} ${TLS}` }, { input })
  // The pod of before ends, and another comes.
  const answers = () => asked(`${password}\nPING\n`).then((told) => told.includes('PONG'))
  await eventually('a node with TLS answers its operator', answers, {
    withinMs: ANSWERED_MS_MAX,
    everyMs: 1_000,
  })
  const told = await asked(`${password}\n${COMMAND_ON_NODE}\nGET dedup::incarnation\n`)
  if (/WRONGPASS|NOAUTH/.test(told)) throw new Error(told)
  // Of both commands only the one that its user may not run is refused.
  mustSee(told, /NOPERM.*'?get'?/i)
  if ((told.match(/NOPERM/g) ?? []).length !== 1) throw new Error(told)
  return 'The operator of the nodes got in with a password, and may look at no record.'
}

export const TLS_PAGE: PageScenario = {
  name: 'page-tls',
  what: 'runbooks.md: a command on a node with TLS and users.',
  lines: [onNode],
  read: readTls,
}
