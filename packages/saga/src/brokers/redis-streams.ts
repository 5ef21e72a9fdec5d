/**
 * Redis Streams: a publisher that appends, and a subscriber in a consumer group.
 *
 * The other consumers claim a dead consumer's messages (XAUTOCLAIM) after `visibilityMs` without activity; a live one
 * keeps its messages fresh. "Again later" moves a message, in one script, from the group's pending list to a sorted set
 * of the group, and from there, when due, to a stream of the group's own, so that other groups never see it. Without
 * `appendfsync always` Redis confirms before it has written to disk: a crash of its machine loses the last confirmed
 * messages.
 *
 * Source: redis.io, XREADGROUP, XAUTOCLAIM.
 */
import { Redis } from 'ioredis'
import { processClock } from '../ambient.ts'
import { BrokerUnavailableError, PublishRefusedError } from '../errors.ts'
import { type MessagePublisher, type MessageSubscriber, propertiesOf } from '../messages.ts'
import { requirePositive, requireWhole } from '../option-checks.ts'
import { accessRefusal, type Deliveries, type Session, subscriberOf } from './deliveries.ts'

export type RedisStreamsOptions = {
  readonly url: string
  /** Prefix of all keys. Default empty. */
  readonly keyPrefix?: string
}

/** Of publishers and subscribers. */
const connections = {
  // RESP 3 has another form for the reply to XREADGROUP.
  protocol: 2,
  lazyConnect: true,
  connectTimeout: 5_000,
  // A server that says nothing for so long is away: shorter than the relay waits, which would count it against the message.
  socketTimeout: 5_000,
  retryStrategy: (attempt: number) => Math.min(50 * attempt, 1_000),
  // A server that became a replica keeps its connections; the address leads to its successor by now, or will soon.
  reconnectOnError: ({ message }: Error) => message.includes('READONLY'),
} as const

/** Why there is no connection: what `connect` throws, and a command, does not say it. */
function faultsOf(redis: Redis): (thrown: unknown) => unknown {
  let fault: Error | undefined
  redis.on('error', (error: Error) => {
    fault = error
  })
  redis.on('ready', () => {
    fault = undefined
  })
  return (thrown) => fault ?? thrown
}

export type RedisStreamsPublisherOptions = RedisStreamsOptions & {
  /**
   * Writing cuts streams to about this length: a group that has not handled the older entries by then may lose them.
   * Default: never cut.
   */
  readonly aboutMaxLength?: number
}

/** Appends to the stream that the destination names. */
export function createRedisStreamsPublisher(options: RedisStreamsPublisherOptions): MessagePublisher {
  const { url, keyPrefix = '', aboutMaxLength } = options
  requireWhole({ aboutMaxLength })
  const redis = new Redis(url, {
    ...connections,
    // A command reaches the server now or fails now: the outbox keeps the message, not a queue in memory.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
  })
  const faultOf = faultsOf(redis)
  let connecting: Promise<void> | undefined
  /** ioredis reconnects only after a first connection, which is ours to make. */
  async function connected(): Promise<void> {
    if (redis.status === 'ready') return
    if (redis.status === 'wait' || redis.status === 'end')
      connecting ??= redis.connect().finally(() => {
        connecting = undefined
      })
    if (connecting === undefined) throw new Error(`the connection is ${redis.status}`)
    await connecting
  }
  return {
    silenceIsOutage: true,
    async publish(message) {
      try {
        await connected()
        const trim = aboutMaxLength === undefined ? [] : ['MAXLEN', '~', String(aboutMaxLength)]
        const fields = Object.entries({ ...message.headers, ...propertiesOf(message) }).flat()
        await redis.call(
          'XADD',
          `${keyPrefix}${message.destination}`,
          ...trim,
          '*',
          ...fields,
          bodyField,
          message.body,
        )
      } catch (error) {
        if (/^(WRONGTYPE|ERR|NOPERM)/.test(String((error as Error)?.message)))
          throw new PublishRefusedError(`Redis refused a message for ${message.destination}`, {
            cause: error,
          })
        const cause = faultOf(error)
        throw accessRefusal('Redis', cause) ?? new BrokerUnavailableError('Redis is out of reach', { cause })
      }
    },
    async close() {
      redis.disconnect()
    },
  }
}

export type RedisStreamsSubscriberOptions = RedisStreamsOptions & {
  readonly stream: string
  readonly group: string
  /** Default: random. */
  readonly consumer?: string
  /** After this time another consumer claims a dead one's message. Default 30 s. */
  readonly visibilityMs?: number
}

export function createRedisStreamsSubscriber(options: RedisStreamsSubscriberOptions): MessageSubscriber {
  requirePositive({ visibilityMs: options.visibilityMs })
  return subscriberOf('Redis', (deliveries) => new RedisStreamsSession(options, deliveries))
}

/** KEYS: stream of the entry, sorted set. ARGV: group, entry id, due (Unix ms), the entry as JSON. Answers 1. */
const delayScript = `
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[4])
redis.call('XACK', KEYS[1], ARGV[1], ARGV[2])
return 1`

/** KEYS: sorted set, the group's own stream. Moves what is due by the server's clock, at most 100; answers how many. */
const dueScript = `
local now = redis.call('TIME')
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now[1] * 1000 + math.floor(now[2] / 1000), 'LIMIT', 0, 100)
for _, entry in ipairs(due) do
  redis.call('XADD', KEYS[2], '*', unpack(cjson.decode(entry).fields))
  redis.call('ZREM', KEYS[1], entry)
end
return #due`

/**
 * KEYS: the streams of the group. ARGV: group, the name of who leaves, idle ms. Takes off the group's list who leaves and who is gone,
 * unless they have messages: those are lost to the group with the name, and are claimed from it first.
 */
const tidyScript = `
for _, stream in ipairs(KEYS) do
  for _, consumer in ipairs(redis.call('XINFO', 'CONSUMERS', stream, ARGV[1])) do
    local of = {}
    for i = 1, #consumer, 2 do of[consumer[i]] = consumer[i + 1] end
    if of.pending == 0 and (of.name == ARGV[2] or of.idle >= tonumber(ARGV[3])) then
      redis.call('XGROUP', 'DELCONSUMER', stream, ARGV[1], of.name)
    end
  end
end`

/**
 * Names and values: Lua passes no more than 8,000 arguments to a command. An entry with more stays pending, and comes again after
 * `visibilityMs`.
 */
const delayedFieldsMax = 7_900

/** The last field of this name is the body: a header may have the same name, and whoever makes a map takes the last one. */
const bodyField = 'body'

function partsOf(fields: readonly string[]): { headers: Record<string, string>; body: string } {
  const named = fields.flatMap((name, index) => (index % 2 === 0 ? [[name, fields[index + 1] ?? '']] : []))
  const bodyAt = named.findLastIndex(([name]) => name === bodyField)
  const headers = Object.fromEntries(named.filter((_, index) => index !== bodyAt))
  return { headers, body: named[bodyAt]?.[1] ?? '' }
}

/** The stream was cut while a consumer had them that died: the server has taken them off its list of what is pending. */
function lostMessages(stream: string, group: string, ids: readonly string[]): Error {
  const named = `${ids.slice(0, 10).join(', ')}${ids.length > 10 ? ', …' : ''}`
  return new Error(
    `${ids.length} messages of the stream ${stream} (${named}) were cut from it before the group ${group} had handled them, and are lost; let the stream keep more (aboutMaxLength of its publishers, XTRIM), and send them again`,
  )
}

type Entry = readonly [id: string, fields: readonly string[]]

const keyOf = (stream: string, id: string) => `${stream}/${id}`

/** How long a read waits for new messages, and how often delayed and orphaned ones are checked. */
const blockMs = 200

class RedisStreamsSession implements Session {
  readonly #deliveries: Deliveries
  readonly #redis: Redis
  readonly #blocking: Redis
  readonly #streams: readonly [main: string, again: string]
  readonly #delayed: string
  readonly #group: string
  readonly #me: string
  readonly #visibilityMs: number
  /** Where the next look for orphans of a stream begins: one look sees a part of what is pending. */
  readonly #cursors = new Map<string, string>()
  /** The stream of this index is the first to be read, so that neither keeps the other from the room that there is. */
  #first = 0
  #reading: Promise<void> = Promise.resolve()
  #keptAtMs = 0

  constructor(options: RedisStreamsSubscriberOptions, deliveries: Deliveries) {
    const { url, keyPrefix = '', stream, group, visibilityMs = 30_000 } = options
    const settings = { ...connections, enableOfflineQueue: true, maxRetriesPerRequest: 1 }
    this.#deliveries = deliveries
    this.#redis = new Redis(url, settings)
    this.#blocking = new Redis(url, settings)
    for (const redis of [this.#redis, this.#blocking]) redis.on('error', deliveries.report)
    const main = `${keyPrefix}${stream}`
    this.#streams = [main, `${main}:again:${group}`]
    this.#delayed = `${main}:delayed:${group}`
    this.#group = group
    this.#me = options.consumer ?? crypto.randomUUID()
    this.#visibilityMs = visibilityMs
  }

  async begin(): Promise<void> {
    const faultOf = faultsOf(this.#redis)
    await Promise.all([this.#redis.connect(), this.#blocking.connect()]).catch((error: unknown) => {
      throw faultOf(error)
    })
    await this.#declare()
    await this.#tidy('')
    this.#reading = this.#deliveries.repeat(processClock, blockMs, () => this.#readOnce())
  }

  async stop(): Promise<void> {
    await this.#reading
  }

  async leave(): Promise<void> {
    if (this.#redis.status === 'ready') await this.#tidy(this.#me)
    this.#redis.disconnect()
    this.#blocking.disconnect()
  }

  async #declare(): Promise<void> {
    for (const stream of this.#streams)
      await this.#redis.xgroup('CREATE', stream, this.#group, '0', 'MKSTREAM').catch((error: Error) => {
        if (!error.message.startsWith('BUSYGROUP')) throw error
      })
  }

  /** A name of no use costs memory alone: a user without the right to do it consumes all the same. */
  async #tidy(leaving: string): Promise<void> {
    await this.#redis
      .eval(tidyScript, 2, ...this.#streams, this.#group, leaving, this.#visibilityMs)
      .catch(() => {})
  }

  async #readOnce(): Promise<void> {
    try {
      await this.#redis.eval(dueScript, 2, this.#delayed, this.#streams[1])
      await this.#keepMine()
      // Wait for room without reading, but keep renewing messages in flight.
      if (this.#deliveries.room <= 0) return await this.#deliveries.pause(processClock, blockMs)
      const [main] = this.#streams
      this.#first = 1 - this.#first
      let found = 0
      for (const stream of this.#first === 0 ? this.#streams : this.#streams.toReversed())
        found += (await this.#claimOrphans(stream)) + (await this.#readNew(stream))
      if (found === 0) await this.#readNew(main, 'BLOCK', String(blockMs))
    } catch (error) {
      // A server that restarted empty has no group.
      if (!/NOGROUP/.test(String((error as Error)?.message))) throw error
      await this.#declare()
      throw new Error(
        `the group ${this.#group} of ${this.#streams[0]} was gone, and begins anew with the oldest entry that the stream has; what was handled longer ago than the consumer's retentionMs is handled again`,
        { cause: error },
      )
    }
  }

  /** Returns how many there were. Of one stream, because COUNT is for each of a call. */
  async #readNew(stream: string, ...block: readonly string[]): Promise<number> {
    const { room } = this.#deliveries
    if (room <= 0) return 0
    const args = ['GROUP', this.#group, this.#me, 'COUNT', String(room), ...block, 'STREAMS', stream, '>']
    const answer = (await this.#blocking.call('XREADGROUP', ...args)) as [string, Entry[]][] | null
    const entries = answer?.[0]?.[1] ?? []
    for (const entry of entries) this.#start(stream, entry, false)
    return entries.length
  }

  async #claimOrphans(stream: string): Promise<number> {
    const { room } = this.#deliveries
    if (room <= 0) return 0
    const from = this.#cursors.get(stream) ?? '0-0'
    const args = [stream, this.#group, this.#me, String(this.#visibilityMs), from, 'COUNT', String(room)]
    // A server before 7.0 names none that were cut: it has null in their place.
    const [next, claimed, cut = []] = (await this.#redis.call('XAUTOCLAIM', ...args)) as [
      string,
      (Entry | null)[],
      string[]?,
    ]
    this.#cursors.set(stream, next)
    const entries = claimed.filter((entry) => entry !== null)
    for (const entry of entries) this.#start(stream, entry, true)
    if (cut.length > 0) this.#deliveries.report(lostMessages(stream, this.#group, cut))
    return entries.length
  }

  /** Messages in flight must not count as idle. */
  async #keepMine(): Promise<void> {
    const nowMs = performance.now()
    const underWay = this.#deliveries.underWay.map(String)
    if (nowMs - this.#keptAtMs < this.#visibilityMs / 3 || underWay.length === 0) return
    this.#keptAtMs = nowMs
    for (const stream of this.#streams) {
      const prefix = keyOf(stream, '')
      const ids = underWay.filter((key) => key.startsWith(prefix)).map((key) => key.slice(prefix.length))
      if (ids.length > 0)
        await this.#redis.call('XCLAIM', stream, this.#group, this.#me, '0', ...ids, 'JUSTID')
    }
  }

  #start(stream: string, entry: Entry, redelivered: boolean): void {
    this.#deliveries.begin(keyOf(stream, entry[0]), () => this.#deliver(stream, entry, redelivered))
  }

  async #deliver(stream: string, [id, fields]: Entry, redelivered: boolean): Promise<void> {
    const verdict = await this.#deliveries.verdictOn({
      ...partsOf(fields),
      properties: { stream: this.#streams[0] },
      redelivered,
      deliveryId: `${stream} ${id}`,
    })
    if (verdict.kind === 'again' && fields.length > delayedFieldsMax) return
    if (verdict.kind !== 'again') await this.#redis.xack(stream, this.#group, id)
    else {
      const [seconds, microseconds] = (await this.#redis.time()) as unknown as [string, string]
      const dueMs = Number(seconds) * 1000 + Number(microseconds) / 1000 + verdict.delayMs
      await this.#redis.eval(
        delayScript,
        2,
        stream,
        this.#delayed,
        this.#group,
        id,
        Math.round(dueMs),
        JSON.stringify({ id, fields }),
      )
    }
    // Other groups may still need an entry of the main stream; only this group reads its own stream.
    if (stream === this.#streams[1]) await this.#redis.xdel(stream, id)
  }
}
