/**
 * Real nodes that speak TLS, and demand a certificate of whoever connects, as Redis does by default. A port in plain text is for
 * the test alone: it changes the nodes' settings and cuts their connections.
 *
 *     await using nodes = await startTlsNodes(authority)
 *     nodes.setting                        // rediss://127.0.0.1:…, …
 *     await nodes.trust(0, other.caFile)   // from the next connection on
 */
import { Redis } from 'ioredis'
import type { Authority, Signed } from './certificates.ts'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { type RedisServers, startRedisServers } from './redis-servers.ts'

export type TlsNodesOptions = {
  readonly count?: number
  /** Default: both. */
  readonly protocol?: 'TLSv1.2' | 'TLSv1.3'
  /** Of all nodes. Default: one that the authority signs. */
  readonly certificate?: Signed
  /** The host of the URLs. Default: `127.0.0.1`. */
  readonly host?: string
  /** Further lines of redis.conf. */
  readonly config?: readonly string[]
}

export type TlsNodes = AsyncDisposable & {
  readonly servers: RedisServers
  /** For `FENCEPOST_REDIS_NODES`. */
  readonly setting: string
  /** Whose clients a node lets in from now on. Open connections stay. */
  trust(index: number, caFile: string): Promise<void>
  /** The certificate that a node shows from now on. */
  show(index: number, certificate: Signed): Promise<void>
  /** Cuts all connections of a node, and waits until one was let in again and is used. */
  cut(index: number): Promise<void>
}

export async function startTlsNodes(
  authority: Authority,
  {
    count = 3,
    protocol,
    certificate = authority.sign('node'),
    host = '127.0.0.1',
    config = [],
  }: TlsNodesOptions = {},
): Promise<TlsNodes> {
  const ports = await Promise.all(Array.from({ length: count }, () => freePort()))
  const servers = await startRedisServers(count, {
    founded: true,
    config: (index) => [
      `tls-port ${ports[index]}`,
      `tls-cert-file ${certificate.certFile}`,
      `tls-key-file ${certificate.keyFile}`,
      `tls-ca-cert-file ${authority.caFile}`,
      ...(protocol === undefined ? [] : [`tls-protocols ${protocol}`]),
      ...config,
    ],
  })
  async function withClient(index: number, use: (client: Redis) => Promise<unknown>): Promise<void> {
    const client = new Redis(servers.at(index).url)
    try {
      await use(client)
    } finally {
      client.disconnect()
    }
  }
  const set = (index: number, ...settings: readonly string[]) =>
    withClient(index, (client) => client.call('CONFIG', 'SET', ...settings))
  /** Ids grow. A connection whose handshake is under way has one, and no command. */
  const isBack = async (client: Redis, own: number) =>
    String(await client.client('LIST'))
      .split('\n')
      .some((line) => Number(/^id=(\d+)/.exec(line)?.[1]) > own && !line.includes('cmd=NULL'))
  return {
    servers,
    setting: ports.map((port) => `rediss://${host}:${port}`).join(','),
    trust: (index, caFile) => set(index, 'tls-ca-cert-file', caFile),
    show: (index, { certFile, keyFile }) => set(index, 'tls-cert-file', certFile, 'tls-key-file', keyFile),
    cut: (index) =>
      withClient(index, async (client) => {
        const own = await client.client('ID')
        await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
        await eventually('a client is back', () => isBack(client, own))
      }),
    [Symbol.asyncDispose]: () => servers[Symbol.asyncDispose](),
  }
}
