/**
 * The `kubectl` and `helm` lines of docs/operations/one-key.md on an API server: it makes the Secret, installs what opens the listener,
 * and finds the pod and the container that the lines name. No kubelet runs the pod, so a line ends with the sentence of the
 * step after that.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CLUSTER_LINES, tokensFileOfPage } from '../support/one-key-page.ts'
import type { Cluster } from './cluster.ts'

const NAMESPACE = 'one-key'
const POD = 'fencepost-0'
/** What the reader has already, in place of `…`. */
const OWN = [
  '--set',
  'fullnameOverride=fencepost',
  '--set',
  'service.tokenSecret=token',
  '--set',
  'redis.bundled.openToAll=true',
]

type Check = (sentence: string, of: () => Promise<unknown>) => Promise<void>

export async function checkOneKeyPage(cluster: Cluster, chart: string, check: Check): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-operators-'))
  try {
    const file = join(folder, 'operators')
    await writeFile(file, tokensFileOfPage().content)
    await cluster.addNamespace(NAMESPACE)
    const [create = '', upgrade = '', forward = '', exec = ''] = CLUSTER_LINES
    const run = (line: string) => cluster.kubectl(NAMESPACE, ...wordsOf(line))
    await check(create, () => run(create.replace('=operators', `=${file}`)))
    await check(upgrade, () =>
      cluster.helm(NAMESPACE, 'upgrade', '--install', 'rel', chart, ...OWN, ...wordsOf(upgrade).slice(2)),
    )
    await check('the pod of the release is admitted', () => cluster.addPodOf(NAMESPACE, 'fencepost', POD))
    await check(forward, () => ends(run(forward), 'pod is not running'))
    await check(exec, () => ends(run(exec), 'does not have a host assigned'))
    const wrong = exec.replace('--container fencepost', '--container another')
    await check(`refused: ${wrong}`, () => ends(run(wrong), 'another'))
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Without the program. */
function wordsOf(line: string): readonly string[] {
  return line.replace('POD', POD).split(' ').slice(1)
}

async function ends(ran: Promise<string>, sentence: string): Promise<void> {
  const told = await ran.catch((error: Error) => error.message.split('\n').slice(1).join('\n'))
  if (!told.includes(sentence)) throw new Error(`it did not say "${sentence}", but: ${told}`)
}
