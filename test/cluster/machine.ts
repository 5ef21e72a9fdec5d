/**
 * A machine made of namespaces, in which a node of Kubernetes runs as on one of its own: its processes, mounts, bridges and
 * addresses end with its first process, and its cgroups are removed after that. Nothing of it is seen on the machine itself
 * but the processes, and the folder.
 */
import { mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../support/eventually.ts'
import { type ProcessOptions, TestProcess } from '../support/processes.ts'
import { cgroupHierarchies, clusterProgram } from './requirements.ts'

export type Machine = AsyncDisposable & {
  readonly name: string
  /** The address of the node, in its own network. */
  readonly address: string
  /** Seen inside and outside, and removed at the end. */
  readonly folder: string
  /** Below every hierarchy: the cgroup of its pods. */
  readonly cgroup: string
  /** Starts a program in all of its namespaces. */
  start(program: string, args: readonly string[], options?: ProcessOptions): TestProcess
  /** The command that runs another one in its network alone, with the files of the machine around it. */
  readonly inNetwork: readonly [program: string, ...args: string[]]
}

const STARTED_MS_MAX = 30_000
const ADDRESS = '10.99.0.1'

export async function startMachine(name: string): Promise<Machine> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-cluster-'))
  const cgroup = folder.split('/').at(-1) as string
  const nsenter = clusterProgram('nsenter')
  const namespaces = ['--mount', '--net', '--pid', '--uts', '--ipc', '--fork', '--mount-proc', '--kill-child']
  // setpriv: it ends with this process, also where that one is killed.
  const script = [join(import.meta.dirname, 'machine.sh'), folder, name, ADDRESS]
  const first = new TestProcess(
    'setpriv',
    ['--pdeathsig', 'KILL', 'unshare', ...namespaces, 'sh', ...script],
    { name: `machine ${name}`, cwd: '/' },
  )
  const started: TestProcess[] = []
  let disposed: Promise<void> | undefined
  const dispose = () => {
    disposed ??= end()
    return disposed
  }
  // Ctrl-C would leave the cgroups and the folder.
  const interrupted = () => void dispose().finally(() => process.exit(130))
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, interrupted)
  const end = async () => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, interrupted)
    await first.end({ signal: 'SIGKILL' })
    for (const child of started) await child.end({ signal: 'SIGKILL' })
    await removeCgroups(cgroup)
    await rm(folder, { recursive: true, force: true })
  }
  try {
    makeCgroups(cgroup)
    await first.line(/^the machine is up$/, { withinMs: STARTED_MS_MAX })
    const init = readFileSync(`/proc/${first.pid}/task/${first.pid}/children`, 'utf8').trim()
    const all = ['--target', init, '--mount', '--net', '--pid', '--uts', '--ipc', '--wdns=/', '--']
    return {
      name,
      address: ADDRESS,
      folder,
      cgroup,
      start: (program, args, options) => {
        const child = new TestProcess(nsenter, [...all, program, ...args], { name: program, ...options })
        started.push(child)
        return child
      },
      inNetwork: [nsenter, '--target', init, '--net', '--'],
      [Symbol.asyncDispose]: dispose,
    }
  } catch (cause) {
    await dispose()
    throw cause
  }
}

function makeCgroups(name: string): void {
  for (const hierarchy of cgroupHierarchies().folders) {
    mkdirSync(join(hierarchy, name))
    // A new cgroup of this controller has no processor and no memory, and no process may enter it.
    if (hierarchy.endsWith('/cpuset'))
      for (const file of ['cpuset.cpus', 'cpuset.mems'])
        writeFileSync(join(hierarchy, name, file), readFileSync(join(hierarchy, file)))
  }
}

/** From the innermost to the outermost. The kernel lets go of a process a moment after it has ended. */
async function removeCgroups(name: string): Promise<void> {
  // On a machine with both versions runc makes one there, too.
  for (const hierarchy of [...cgroupHierarchies().folders, '/sys/fs/cgroup/unified'])
    await eventually(`the cgroup ${hierarchy}/${name} to be empty`, () =>
      removeFolders(join(hierarchy, name)),
    )
}

function removeFolders(folder: string): boolean {
  try {
    for (const entry of readdirSync(folder, { withFileTypes: true }))
      if (entry.isDirectory()) removeFolders(join(folder, entry.name))
    rmdirSync(folder)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ENOENT'
  }
}
