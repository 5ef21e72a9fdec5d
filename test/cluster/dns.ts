/**
 * CoreDNS, the name server of clusters, built from its module into the cache of fetched programs with the five plug-ins that
 * it needs here. A whole CoreDNS has the clients of three clouds in it; without them it takes a minute of a processor, once.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cached, goProgram, isCached, run } from '../support/fetched-programs.ts'

export const COREDNS = '1.12.4'
const PLUGINS = ['bind', 'errors', 'kubernetes', 'ready']

const VERSION = `coredns-v${COREDNS}`

/** The absolute path of the program, built where it is not in the cache yet. */
export function nameServer(): Promise<string> {
  return cached(VERSION, 'coredns', build)
}

export function nameServerIsBuilt(): boolean {
  return isCached(VERSION, 'coredns')
}

/** What the kubernetes plug-in of a node asks for, on the address of the node. */
export function corefile(address: string, kubeconfig: string): string {
  return [
    '.:53 {',
    `  bind ${address}`,
    '  errors',
    '  ready 127.0.0.1:8182',
    '  kubernetes cluster.local in-addr.arpa {',
    `    kubeconfig ${kubeconfig}`,
    '    ttl 5',
    '  }',
    '}',
    '',
  ].join('\n')
}

async function build(into: string): Promise<void> {
  console.log(`building CoreDNS ${COREDNS} from its module …`)
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-coredns-'))
  const imports = PLUGINS.map((name) => `import _ "github.com/coredns/coredns/plugin/${name}"`)
  const main = [
    'package main',
    'import "github.com/coredns/coredns/coremain"',
    ...imports,
    'func main() { coremain.Run() }',
  ]
  try {
    await writeFile(
      join(folder, 'go.mod'),
      `module fencepost.test/coredns\ngo 1.24.0\nrequire github.com/coredns/coredns v${COREDNS}\n`,
    )
    await writeFile(join(folder, 'main.go'), `${main.join('\n')}\n`)
    const go = await goProgram()
    await run(
      'coredns',
      go,
      ['build', '-p', '2', '-o', join(into, 'coredns'), '-ldflags', '-s -w', '.'],
      {},
      folder,
    )
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
