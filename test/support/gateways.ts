/**
 * Real gateways with the shipped configuration of deploy/gateways. The test replaces the addresses, and the time that a
 * gateway waits for a check: on a busy machine half a second, as shipped, may not do. Each runs in its own folder.
 */
import { chmod, cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchProgram } from './fetched-programs.ts'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'
import { isTraefikBuilt, traefikProgram } from './traefik.ts'

const shipped = join(import.meta.dirname, '../../deploy/gateways')

/** As they stand in the shipped files. */
const CLIENTS = 8000
/** Where nginx passes requests that it has taken whole to itself. */
const BETWEEN = 8001
const APPLICATION = 3000

export type Gateway = AsyncDisposable & { readonly origin: string; readonly process: TestProcess }

export type GatewayName = 'nginx' | 'haproxy' | 'caddy' | 'envoy' | 'envoy over gRPC' | 'kong' | 'traefik'

type Kind = {
  readonly folder: string
  readonly file: string
  /** The substitute beside this file, where the program itself can't be installed. */
  readonly standIn?: string
  /** Its files say how long a check may take; without them it takes as long as the program allows. */
  readonly hasTimes?: false
  readonly command: (file: string, folder: string) => Promise<readonly [string, ...string[]]>
}

export const KINDS: Record<GatewayName, Kind> = {
  nginx: {
    folder: 'nginx',
    file: 'nginx.conf',
    command: async (file, folder) => [requireProgram('nginx'), '-p', folder, '-c', file, '-e', 'stderr'],
  },
  haproxy: {
    folder: 'haproxy',
    file: 'haproxy.cfg',
    command: async (file) => [requireProgram('haproxy'), '-f', file],
  },
  caddy: {
    folder: 'caddy',
    file: 'Caddyfile',
    command: async (file) => [await fetchProgram('caddy'), 'run', '--adapter', 'caddyfile', '--config', file],
  },
  envoy: { folder: 'envoy', file: 'ext-authz-http.yaml', command: envoy },
  'envoy over gRPC': { folder: 'envoy', file: 'ext-authz-grpc.yaml', command: envoy },
  kong: {
    folder: 'kong',
    file: 'nginx.conf',
    standIn: 'kong',
    command: async (file, folder) => {
      requireProgram('nginxLua')
      requireProgram('luaCjson')
      return [requireProgram('nginx'), '-p', folder, '-c', file, '-e', 'stderr']
    },
  },
  traefik: {
    folder: 'traefik',
    file: 'traefik.yaml',
    hasTimes: false,
    command: async (file) => [await traefikProgram(), `--configFile=${file}`],
  },
}

/** Every gateway, and Traefik where it has been built. */
export const TESTED_GATEWAYS = (Object.keys(KINDS) as GatewayName[]).filter(
  (name) => name !== 'traefik' || isTraefikBuilt(),
)

async function envoy(file: string): Promise<readonly [string, ...string[]]> {
  const options = ['--concurrency', '1', '--disable-hot-restart', '-l', 'warning']
  return [await fetchProgram('envoy'), '-c', file, ...options]
}

/** Envoy that sends fencepost both requests and answers. */
export const EXT_PROC: Kind = { folder: 'envoy', file: 'ext-proc.yaml', command: envoy }

/**
 * @param ports of the sidecar, by the port that stands for it in the shipped file
 * @param changed what an operator changes in the shipped file, each text that it has to have, and what stands there instead
 */
export async function startGateway(
  kind: Kind,
  application: string,
  ports: Readonly<Record<number, string>>,
  changed: Readonly<Record<string, string>> = {},
): Promise<Gateway> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-gateway-'))
  // nginx as root runs its workers as another user, which needs access to the bodies here.
  await chmod(folder, 0o755)
  await cp(join(shipped, kind.folder), folder, { recursive: true })
  if (kind.standIn !== undefined)
    await cp(join(import.meta.dirname, kind.standIn), folder, { recursive: true })
  const file = join(folder, kind.file)
  const port = await freePort()
  const addresses: Record<number, string> = {
    ...ports,
    [APPLICATION]: application,
    [CLIENTS]: `http://127.0.0.1:${port}`,
    [BETWEEN]: `http://127.0.0.1:${await freePort()}`,
  }
  await rewriteEach(folder, (shipped) =>
    Object.entries(addresses).reduce((text, [from, to]) => withPort(text, from, new URL(to).port), shipped),
  )
  if (kind.hasTimes !== false && !(await rewriteEach(folder, patient)))
    throw new Error(`${folder} does not say how long a check may take as it did`)
  let text = await readFile(file, 'utf8')
  for (const [from, to] of Object.entries(changed)) {
    if (!text.includes(from)) throw new Error(`${kind.file} does not say ${from}`)
    text = text.replace(from, to)
  }
  await writeFile(file, text)
  const [command, ...args] = await kind.command(file, folder)
  const child = new TestProcess(command, args, { name: kind.folder, cwd: folder, env: { HOME: folder } })
  const dispose = async () => {
    // Not SIGKILL: nginx would leave its workers behind.
    await child.end({ signal: 'SIGTERM' })
    await rm(folder, { recursive: true, force: true })
  }
  const origin = `http://127.0.0.1:${port}`
  try {
    // An unprotected method and path: any answer proves that the gateway listens and checks.
    await child.http(`${origin}/ready`, 201)
  } catch (cause) {
    await dispose()
    throw cause
  }
  return { origin, process: child, [Symbol.asyncDispose]: dispose }
}

/** The shipped timeouts for connecting to fencepost, and for the answer to a check. */
const TIMES: readonly (readonly [shipped: RegExp, patient: string])[] = [
  [/(timeout) 200ms/g, '$1 5s'],
  [/(timeout) 500ms/g, '$1 15s'],
  [/(timeout:) 0\.2s/g, '$1 5s'],
  [/(timeout:) (0\.5|3)s/g, '$1 15s'],
  [/(TIMEOUT_MS =) 500\b/g, '$1 15000'],
  [/(timeout = .*default =) 500\b/g, '$1 15000'],
]

function patient(shipped: string): string {
  return TIMES.reduce((text, [from, to]) => text.replaceAll(from, to), shipped)
}

/** @returns whether any file is another one now */
async function rewriteEach(folder: string, rewritten: (shipped: string) => string): Promise<boolean> {
  let changed = false
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue
    const file = join(entry.parentPath, entry.name)
    const shipped = await readFile(file, 'utf8')
    const text = rewritten(shipped)
    if (text === shipped) continue
    changed = true
    await writeFile(file, text)
  }
  return changed
}

function withPort(text: string, from: string, to: string): string {
  return text
    .replaceAll(`127.0.0.1:${from}`, `127.0.0.1:${to}`)
    .replaceAll(`http://:${from} `, `http://:${to} `)
    .replaceAll(`port_value: ${from} `, `port_value: ${to} `)
}
