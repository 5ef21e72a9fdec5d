/** A node of the cluster on its machine: containerd, the kubelet, kube-proxy, and the name server of the cluster. */
import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { kubernetesProgram } from '../apiserver/programs.ts'
import { corefile, nameServer } from './dns.ts'
import { PAUSE } from './images.ts'
import type { Machine } from './machine.ts'
import { clusterProgram } from './requirements.ts'

const READY_MS_MAX = 300_000
/** Of containerd 1.6, which would look for their kernel modules. */
const UNUSED = [
  'io.containerd.snapshotter.v1.btrfs',
  'io.containerd.snapshotter.v1.aufs',
  'io.containerd.snapshotter.v1.devmapper',
  'io.containerd.snapshotter.v1.zfs',
  'io.containerd.internal.v1.opt',
  'io.containerd.tracing.processor.v1.otlp',
]

export function containerdSocket({ folder }: Machine): string {
  return join(folder, 'containerd.sock')
}

export async function startNode(
  machine: Machine,
  kubeconfig: string,
  images: readonly string[],
): Promise<void> {
  const file = async (name: string, text: string) => {
    const path = join(machine.folder, name)
    await mkdir(dirname(path), { recursive: true })
    await writeFile(path, text)
    return path
  }
  const socket = containerdSocket(machine)
  await file('cni/bridge.conflist', JSON.stringify(podNetwork(machine)))
  const runtime = machine.start(
    clusterProgram('containerd'),
    ['--config', await file('containerd.toml', containerd(machine, socket))],
    { name: 'containerd' },
  )
  const ctr = (...args: string[]) =>
    machine.start(clusterProgram('ctr'), ['--address', socket, '--namespace', 'k8s.io', ...args]).exited
  await runtime.until('containerd answers', async () => (await ctr('version')).code === 0, {
    withinMs: READY_MS_MAX,
    everyMs: 200,
  })
  for (const image of images) {
    const { code } = await ctr('images', 'import', image)
    if (code !== 0) throw new Error(`containerd could not import ${image}: ${runtime.output.slice(-2_000)}`)
  }
  machine.start(
    await kubernetesProgram('kubelet'),
    [
      `--config=${await file('kubelet.json', JSON.stringify(await kubelet(machine, socket, file)))}`,
      `--kubeconfig=${kubeconfig}`,
      `--root-dir=${join(machine.folder, 'kubelet')}`,
      `--cert-dir=${join(machine.folder, 'kubelet-certificates')}`,
      `--hostname-override=${machine.name}`,
      `--node-ip=${machine.address}`,
    ],
    { name: 'kubelet' },
  )
  const proxy = await file('proxy.json', JSON.stringify(kubeProxy(machine, kubeconfig)))
  machine.start(await kubernetesProgram('kube-proxy'), [`--config=${proxy}`], { name: 'kube-proxy' })
  const names = await file('Corefile', corefile(machine.address, kubeconfig))
  machine.start(await nameServer(), ['-conf', names], { name: 'coredns' })
}

function podNetwork({ folder }: Machine): object {
  const bridge = {
    type: 'bridge',
    bridge: 'pods0',
    isGateway: true,
    isDefaultGateway: true,
    ipMasq: false,
    hairpinMode: true,
    promiscMode: false,
    ipam: { type: 'host-local', dataDir: join(folder, 'addresses'), ranges: [[{ subnet: '10.244.0.0/24' }]] },
  }
  return { cniVersion: '0.4.0', name: 'pods', plugins: [bridge] }
}

function containerd({ folder }: Machine, socket: string): string {
  const cri = 'plugins."io.containerd.grpc.v1.cri"'
  return [
    'version = 2',
    `root = "${folder}/containerd/root"`,
    `state = "${folder}/containerd/state"`,
    `disabled_plugins = ${JSON.stringify(UNUSED)}`,
    '[grpc]',
    `address = "${socket}"`,
    '[ttrpc]',
    `address = "${folder}/containerd.ttrpc.sock"`,
    `[${cri}]`,
    `sandbox_image = "${PAUSE}"`,
    'disable_apparmor = true',
    // Without CAP_SYS_RESOURCE, as in a container, runc could not lower the score of a process.
    'restrict_oom_score_adj = true',
    'netns_mounts_under_state_dir = true',
    'stream_server_address = "127.0.0.1"',
    `[${cri}.containerd]`,
    'snapshotter = "overlayfs"',
    'default_runtime_name = "runc"',
    `[${cri}.containerd.runtimes.runc]`,
    'runtime_type = "io.containerd.runc.v2"',
    `[${cri}.containerd.runtimes.runc.options]`,
    `BinaryName = "${clusterProgram('runc')}"`,
    'SystemdCgroup = false',
    `[${cri}.cni]`,
    `bin_dir = "${dirname(clusterProgram('hostLocal'))}"`,
    `conf_dir = "${folder}/cni"`,
    '',
  ].join('\n')
}

async function kubelet(
  { address, folder, cgroup }: Machine,
  socket: string,
  file: (name: string, text: string) => Promise<string>,
): Promise<object> {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    // cgroup v1 is past its end: 1.36 takes it where it is told to, 1.37 no more.
    failCgroupV1: false,
    cgroupDriver: 'cgroupfs',
    cgroupRoot: `/${cgroup}`,
    containerRuntimeEndpoint: `unix://${socket}`,
    address,
    authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
    authorization: { mode: 'AlwaysAllow' },
    clusterDomain: 'cluster.local',
    clusterDNS: [address],
    failSwapOn: false,
    resolvConf: await file('resolv.conf', `nameserver ${address}\n`),
    volumePluginDir: `${folder}/plugins`,
    podLogsDir: `${folder}/logs`,
    enforceNodeAllocatable: ['pods'],
    // The disk is the machine's, which others fill.
    imageGCHighThresholdPercent: 100,
    imageGCLowThresholdPercent: 99,
    evictionHard: {
      'memory.available': '100Mi',
      'nodefs.available': '0%',
      'nodefs.inodesFree': '0%',
      'imagefs.available': '0%',
    },
    nodeStatusUpdateFrequency: '4s',
    syncFrequency: '10s',
    registerNode: true,
  }
}

function kubeProxy({ name }: Machine, kubeconfig: string): object {
  return {
    apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
    kind: 'KubeProxyConfiguration',
    mode: 'iptables',
    clientConnection: { kubeconfig },
    clusterCIDR: '10.244.0.0/16',
    hostnameOverride: name,
    healthzBindAddress: '127.0.0.1:10256',
    metricsBindAddress: '127.0.0.1:10249',
    // The limits of connections are the machine's.
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
    iptables: { minSyncPeriod: '0s', syncPeriod: '10s' },
  }
}
