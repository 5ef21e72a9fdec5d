/**
 * The programs that a benchmark runs beside ours, each a process of its own: the application, bare proxies, and packages
 * of npm, which are installed into `bench/peers` from a lock file of their own so that the project does not depend on them.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fetchProgram } from '../../test/support/fetched-programs.ts'
import { freePort } from '../../test/support/free-port.ts'
import { startedIn } from '../../test/support/memory-cgroup.ts'
import { TestProcess } from '../../test/support/processes.ts'
import { requireProgram } from '../../test/support/programs.ts'

const peers = join(import.meta.dirname, '../peers')

/** Installs `bench/peers`, where they are missing or another version than that of their lock file. */
export function installPeers(): void {
  const installed = join(peers, 'node_modules/.package-lock.json')
  const versions = (file: string) => {
    const { packages } = JSON.parse(readFileSync(file, 'utf8')) as {
      packages: Record<string, { version?: string }>
    }
    return JSON.stringify(
      Object.entries(packages).flatMap(([name, { version }]) => (name === '' ? [] : [`${name}@${version}`])),
    )
  }
  if (existsSync(installed) && versions(installed) === versions(join(peers, 'package-lock.json'))) return
  console.error('installing the peers of bench/peers/package-lock.json (npm ci) …')
  const done = spawnSync('npm', ['ci', '--ignore-scripts', '--loglevel=error'], {
    cwd: peers,
    stdio: 'inherit',
  })
  if (done.status !== 0) throw new Error('npm ci in bench/peers failed; its output says why')
}

/** A package of `bench/peers`. Its types are not ours to depend on. */
// biome-ignore lint/suspicious/noExplicitAny: whatever it exports
export async function importPeer(name: string): Promise<any> {
  const require = createRequire(join(peers, 'package.json'))
  return import(require.resolve(name))
}

export function peerVersion(name: string): string {
  return (
    JSON.parse(readFileSync(join(peers, 'node_modules', name, 'package.json'), 'utf8')) as { version: string }
  ).version
}

export type Server = AsyncDisposable & {
  readonly url: string
  /** Its processes. */
  readonly pids: readonly number[]
}

export function startBenchApplication(): Promise<Server> {
  return listening(join(import.meta.dirname, 'application.ts'), [])
}

/** @param joins the `cgroup.procs` of the cgroup that it starts in */
export function startFastifyHttpProxy(upstream: string, joins?: string): Promise<Server> {
  return listening(join(peers, 'http-proxy.mjs'), [upstream], joins)
}

/** A page of Fastify, redlock and undici over the same nodes: what it lacks stands at its head. */
export function startNaiveQuorum(
  upstream: string,
  nodes: readonly string[],
  mode: 'plain' | 'autopipeline',
  joins?: string,
): Promise<Server> {
  return listening(join(peers, 'naive-quorum.mjs'), [upstream, nodes.join(','), mode], joins)
}

async function listening(program: string, args: readonly string[], joins?: string): Promise<Server> {
  const [command, ...rest] = startedIn(joins, [process.execPath, program, ...args])
  const child = new TestProcess(command, rest)
  const [, port] = await child.line(/^listening on (\d+)$/, { withinMs: 60_000 })
  return serverOf(child, `http://127.0.0.1:${port}`)
}

/** One worker, keep-alive to both sides, no log: what its documentation recommends for a reverse proxy. */
export async function startNginx(upstream: string): Promise<Server> {
  const { host } = new URL(upstream)
  return withFile('nginx.conf', (port, folder) => [
    `daemon off; worker_processes 1; error_log stderr error; pid ${folder}/pid;
events { worker_connections 4096; }
http {
  access_log off;
  client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
  fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
  keepalive_requests 10000000;
  upstream application { server ${host}; keepalive 256; keepalive_requests 10000000; }
  server {
    listen 127.0.0.1:${port};
    location / { proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection ""; }
  }
}`,
    (file) => [requireProgram('nginx'), '-p', folder, '-c', file, '-e', 'stderr'],
  ])
}

export async function startHaproxy(upstream: string): Promise<Server> {
  const { host } = new URL(upstream)
  return withFile('haproxy.cfg', (port) => [
    `global
  nbthread 1
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  http-reuse always
frontend clients
  bind 127.0.0.1:${port}
  default_backend application
backend application
  server one ${host}
`,
    (file) => [requireProgram('haproxy'), '-f', file],
  ])
}

export async function startEnvoy(upstream: string): Promise<Server> {
  const { hostname, port: upstreamPort } = new URL(upstream)
  const program = await fetchProgram('envoy')
  const address = (port: string | number) =>
    `{ socket_address: { address: ${hostname}, port_value: ${port} } }`
  return withFile('envoy.yaml', (port) => [
    `static_resources:
  listeners:
    - address: ${address(port)}
      filter_chains:
        - filters:
            - name: envoy.filters.network.http_connection_manager
              typed_config:
                "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
                stat_prefix: clients
                route_config:
                  virtual_hosts:
                    - { name: all, domains: ["*"], routes: [{ match: { prefix: "/" }, route: { cluster: application } }] }
                http_filters:
                  - name: envoy.filters.http.router
                    typed_config: { "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }
  clusters:
    - name: application
      type: STATIC
      load_assignment:
        cluster_name: application
        endpoints: [{ lb_endpoints: [{ endpoint: { address: ${address(upstreamPort)} } }] }]
`,
    (file) => [program, '-c', file, '--concurrency', '1', '--disable-hot-restart', '-l', 'warning'],
  ])
}

type Command = readonly [string, ...string[]]

/** @param written the text of the configuration, and the command that runs it */
async function withFile(
  name: string,
  written: (port: number, folder: string) => readonly [string, (file: string) => Command],
): Promise<Server> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-bench-'))
  const port = await freePort()
  const file = join(folder, name)
  const [text, command] = written(port, folder)
  await writeFile(file, text)
  const [program, ...args] = command(file)
  const child = new TestProcess(program, args, { name })
  const url = `http://127.0.0.1:${port}`
  await child.until(`an answer of ${name}`, () =>
    fetch(url).then((response) => response.arrayBuffer().then(() => true)),
  )
  const server = serverOf(child, url)
  return {
    ...server,
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function serverOf(child: TestProcess, url: string): Server {
  return {
    url,
    // nginx carries requests in a child of the process that was started.
    pids: [child.pid, ...childrenOf(child.pid)],
    [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
  }
}

function childrenOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim()
  return children === '' ? [] : children.split(' ').map(Number)
}
