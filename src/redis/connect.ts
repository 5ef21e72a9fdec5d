/**
 * Connections to N Redis nodes, every option written out.
 *
 * Owns how a node is dialled: deadlines, reconnection, TLS, credentials. Never queues and never repeats a command.
 */

import { isIP } from 'node:net'
import { Redis } from 'ioredis'
import type { Random } from '../core/clock.ts'
import type { Trouble } from '../core/node-faults.ts'
import { Connector, hostNames, type NodeTls } from './connector.ts'
import { type DialError, dialFault } from './node-fault.ts'
import { whyNoInfo } from './server-program.ts'

export type RedisAddress = {
  /** `redis://[user:password@]host:port[/db]`, `rediss://…`, or the path of a Unix socket. */
  readonly url: string
  readonly username?: string
  /** Asked at each dial: its file may have changed since the last one. */
  readonly password?: () => string
  /** Where user and password come from: whom a node refuses. */
  readonly login?: string
  /** Of a `rediss://` node, asked at each dial. */
  readonly tls?: () => NodeTls
}

/** Where the node is, without credentials: `host:port`, or the path of its socket. */
export function addressOf({ url }: RedisAddress): string {
  return URL.canParse(url) ? new URL(url).host : url
}

/** Longest pause between redials. Short: each costs one SYN, and a node that is back must vote soon. */
const RECONNECT_MAX_MS = 1_000
const RECONNECT_INITIAL_MS = 50

export type DialOptions = {
  /** For TCP and TLS together; below it a slow node counts as down. */
  readonly connectTimeoutMs: number
  readonly random: Random
  /** The largest outcome that this sidecar stores; absent: what any may. */
  readonly outcomeBytesMax?: number
}

export function createRedisClient(
  address: RedisAddress,
  { connectTimeoutMs, random, outcomeBytesMax }: DialOptions,
): Redis {
  const client = new Redis(address.url, {
    ...(address.username === undefined ? {} : { username: address.username }),
    ...tlsOf(address),
    Connector,
    lazyConnect: true,
    protocol: 2,
    connectTimeout: connectTimeoutMs,
    keepAlive: 10_000,
    noDelay: true,
    // A command that can't be sent now is an answer ("refused"), not something to send later.
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
    enableReadyCheck: true,
    maxLoadingRetryTime: 1_000,
    enableAutoPipelining: false,
    autoResubscribe: false,
    // A suspended peer does not close its side either: then ours is torn down.
    disconnectTimeout: 100,
    disableClientInfo: true,
    retryStrategy: (times) =>
      Math.ceil(
        random.fraction() * Math.min(RECONNECT_MAX_MS, RECONNECT_INITIAL_MS * 2 ** Math.min(times, 10)),
      ),
  })
  // ioredis copies what it is given, and reads its copy at each dial.
  if (address.password !== undefined)
    Object.defineProperty(client.options, 'password', { get: address.password, enumerable: true })
  limitReplies(client, outcomeBytesMax)
  return client
}

function tlsOf({ tls }: RedisAddress) {
  if (tls === undefined) return {}
  return {
    tls: {
      // The connector reads it at each dial: files may have changed since the last one.
      get secureContext() {
        return tls().context
      },
    },
  }
}

/** Addresses of a node's name, and those of them that take no connection. */
export type Reached = { readonly ips: readonly string[]; readonly silent: readonly string[] }

/** A process that has just started may get no turn for as long as a dial takes. */
const DIALS = 3

/** Each address by itself, as a client dials it: with several, the client goes on with the first that answers. */
export async function addressesReached(
  address: RedisAddress,
  { connectTimeoutMs }: Pick<DialOptions, 'connectTimeoutMs'>,
): Promise<Reached> {
  const { hostname, port } = new URL(address.url)
  const host = hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0) return { ips: [host], silent: [] }
  const { promise, resolve } = Promise.withResolvers<readonly string[]>()
  hostNames.addressesOf(host, ({ addresses }) => resolve(addresses.map((one) => one.address)))
  const ips = await promise
  const { tls } = tlsOf(address)
  const answers = async (ip: string) => {
    for (let dial = 0; dial < DIALS; dial += 1) {
      const at = { host: ip, port: Number(port), connectTimeout: connectTimeoutMs }
      const connector = new Connector(tls === undefined ? at : { ...at, tls: { ...tls, servername: host } })
      const { destroyed } = await connector.connect()
      connector.disconnect()
      if (!destroyed) return true
    }
    return false
  }
  const answered = await Promise.all(ips.map(answers))
  return { ips, silent: ips.filter((_, at) => !answered[at]) }
}

/**
 * Tells why there is no connection, each time: a wrong password or an unknown host ends it, and the end itself says less than that.
 *
 * @param report `isUnsuitable`: no other dial will find a node there
 * @returns to be called before this side ends the connection: that the node then ends it as well says nothing
 */
export function onDown(
  client: Redis,
  { tls, login }: RedisAddress,
  report: (trouble: Trouble, isUnsuitable: boolean) => void,
): () => void {
  let failure: Trouble | undefined
  // Connected, and not yet ready: the first answer is awaited.
  let connected = false
  let wasReady = false
  const faultOf = (error?: DialError): Trouble => {
    const trouble = dialFault(error, { tls: tls?.(), stream: client.stream, connected, wasReady })
    const isLogin = trouble.fault === 'wrong_password' || trouble.fault === 'no_password'
    return login !== undefined && isLogin ? { ...trouble, reason: `${trouble.reason}: ${login}` } : trouble
  }
  client.on('connect', () => {
    connected = true
  })
  client.on('ready', () => {
    connected = false
    wasReady = true
  })
  client.on('close', () => {
    report(failure ?? faultOf(), false)
    failure = undefined
    connected = false
    wasReady = false
  })
  // Without a listener a refused connection would end the process.
  client.on('error', (error: DialError) => {
    // ioredis asks for INFO before it calls a connection ready.
    const unsuitable = whyNoInfo(error)
    failure = unsuitable ?? faultOf(error)
    report(failure, unsuitable !== undefined)
  })
  return () => {
    failure ??= faultOf()
  }
}

/** A command that says how many records its reply may have. */
export type AsksForRecords = { readonly records: number }

/** A poll, a page of keys, a queue of waiters, a few hundred heartbeats: some KiB each. */
const REPLY_BYTES_MAX = 1024 * 1024
/** Up to ten thousand entries of the audit log are read at once. */
const ENTRIES_BYTES_MAX = 32 * 1024 * 1024
/** The head of an outcome, its header and what encryption adds. */
const RECORD_OVERHEAD_BYTES = 256 * 1024
/** Another sidecar may keep larger outcomes than this one, while its configuration is rolled out. */
const LARGER_ELSEWHERE = 4
/** What no setting exceeds. */
const OUTCOME_BYTES_MAX = 64 * 1024 * 1024

/** The queue of commands that wait for a reply is ioredis' own; its version is exact in package.json. */
type Waiting = {
  readonly commandQueue: {
    peekFront(): { readonly command: { readonly name: string } & Partial<AsksForRecords> } | undefined
  }
}

/**
 * Ends a connection over which a node sends more than what it was asked for can be.
 *
 * The client keeps what it has of a reply until the reply is whole, so a node whose reply has no end would fill the memory of each
 * sidecar. What counts is what came since a reply was whole; how much that may be follows from the command that waits for it. A
 * connection that is ended so is dialled again, and the others go on: the reason of its state says the number.
 *
 * @param outcomeBytesMax that this sidecar stores; absent: what any may
 */
function limitReplies(client: Redis, outcomeBytesMax = OUTCOME_BYTES_MAX): void {
  // Another queue for each connection.
  const waiting = () => (client as unknown as Waiting).commandQueue.peekFront()
  client.on('connect', () => {
    const { stream } = client
    let bytes = 0
    let before = waiting()
    stream.prependListener('data', () => {
      before = waiting()
    })
    // After ioredis, which has taken every reply from the queue that is whole by then.
    stream.on('data', (part: Buffer) => {
      const next = waiting()
      bytes = next === before ? bytes + part.length : 0
      const limit = limitOf(next?.command, outcomeBytesMax)
      if (bytes <= limit) return
      const asked = next === undefined ? 'nothing' : next.command.name
      stream.destroy(
        new Error(`its reply to ${asked} is longer than ${limit} bytes, and it has no end so far`),
      )
    })
  })
}

function limitOf(
  command: ({ readonly name: string } & Partial<AsksForRecords>) | undefined,
  outcomeBytesMax: number,
): number {
  if (command?.name === 'xrevrange') return ENTRIES_BYTES_MAX
  const records = command?.records ?? 0
  return REPLY_BYTES_MAX + records * (RECORD_OVERHEAD_BYTES + LARGER_ELSEWHERE * outcomeBytesMax)
}
