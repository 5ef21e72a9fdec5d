/** What a machine needs to be a Kubernetes node for a test, and the sentence for each thing that it lacks. */
import { spawnSync } from 'node:child_process'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { provideServerPrograms, whatToInstall } from '../../scripts/server-programs.ts'
import { isBuilt, KUBERNETES_PROGRAMS } from '../apiserver/programs.ts'
import { findProgram, missingProgram, type ServerProgram, serverPrograms } from '../support/programs.ts'
import { nameServerIsBuilt } from './dns.ts'

const why = 'a cluster on this machine needs it'
const elsewhere = 'the package of your distribution (Linux only)'

export const clusterPrograms = {
  containerd: { programs: ['containerd'], debianPackage: 'containerd', elsewhere, why },
  ctr: { programs: ['ctr'], debianPackage: 'containerd', elsewhere, why },
  runc: { programs: ['runc'], debianPackage: 'runc', elsewhere, why },
  hostLocal: {
    // One of the CNI plug-ins, whose folder is meant: `bridge` is a command of iproute2, too.
    programs: ['host-local'],
    alsoIn: ['/usr/lib/cni', '/opt/cni/bin'],
    debianPackage: 'containernetworking-plugins',
    elsewhere,
    why,
  },
  nsenter: { programs: ['nsenter'], debianPackage: 'util-linux', elsewhere, why },
  ip: { programs: ['ip'], debianPackage: 'iproute2', elsewhere, why },
  iptables: { programs: ['iptables'], debianPackage: 'iptables', elsewhere, why },
  conntrack: { programs: ['conntrack'], debianPackage: 'conntrack', elsewhere, why },
  kubectl: {
    programs: ['kubectl'],
    debianPackage: 'kubectl',
    elsewhere: 'kubernetes.io/docs/tasks/tools',
    why,
  },
} as const satisfies Record<string, ServerProgram>

/** Of the table of all tests. */
const ALSO = ['busybox', 'openssl', 'redis', 'redisCli', 'curl'] as const

export function clusterProgram(name: keyof typeof clusterPrograms): string {
  const wanted: ServerProgram = clusterPrograms[name]
  const found = findProgram(wanted)
  if (found === undefined) throw new Error(missingProgram(wanted))
  return found
}

/** The hierarchies of cgroups that a kubelet uses: those of version 1, or the one of version 2. */
export function cgroupHierarchies(root = '/sys/fs/cgroup'): { version: 1 | 2; folders: string[] } {
  if (existsSync(`${root}/cgroup.controllers`)) return { version: 2, folders: [root] }
  if (!existsSync(root)) return { version: 1, folders: [] }
  const folders = readdirSync(root)
    .map((name) => `${root}/${name}`)
    .filter((folder) => existsSync(`${folder}/cgroup.clone_children`))
  return { version: 1, folders }
}

/** Sentences; none where a cluster starts within a minute, because what it takes is there. Nothing is installed or built. */
export function whyNotAtOnce(): string[] {
  const unbuilt = [
    ...KUBERNETES_PROGRAMS.filter((name) => !isBuilt(name)),
    ...(nameServerIsBuilt() ? [] : ['CoreDNS']),
  ]
  if (unbuilt.length === 0) return whatIsMissing({ install: false })
  return [`${unbuilt.join(', ')} were not built on this machine: npm run test:cluster builds them, once`]
}

/** Sentences; none where the machine can run a cluster. Installs packages only where `install` says so. */
export function whatIsMissing({ install }: { readonly install: boolean }): string[] {
  if (process.platform !== 'linux') return [`this is ${process.platform}: a kubelet runs on Linux alone`]
  const sentences: string[] = []
  if (process.getuid?.() !== 0) sentences.push('it takes root: namespaces, mounts and cgroups are made')
  const { version, folders } = cgroupHierarchies()
  if (version === 2) sentences.push('this machine has cgroup v2 alone, with which the test was never run')
  else if (
    !['memory', 'cpu', 'cpuset', 'pids'].every((name) => folders.some((at) => at.endsWith(`/${name}`)))
  )
    sentences.push('there are no cgroup hierarchies of memory, cpu, cpuset and pids at /sys/fs/cgroup')
  if (!readFileSync('/proc/filesystems', 'utf8').includes('\toverlay'))
    sentences.push('the kernel has no overlay file system, which the layers of images need')
  const wanted = [...Object.values(clusterPrograms), ...ALSO.map((name) => serverPrograms[name])]
  const missing = install
    ? provideServerPrograms(undefined, wanted)
    : wanted.filter((one) => !findProgram(one))
  sentences.push(...whatToInstall(missing))
  if (sentences.length > 0) return sentences
  const allowed = spawnSync('unshare', ['--mount', '--net', '--pid', '--fork', '--mount-proc', 'true'])
  if (allowed.status !== 0) sentences.push(`namespaces can't be made here: ${allowed.stderr}`)
  return sentences
}
