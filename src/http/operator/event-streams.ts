/**
 * What operators watch, as server-sent events: one look after the other, for as long as somebody reads.
 *
 *   open → (event | comment)* → the reader leaves | its token is gone, or has another role | it reads too slowly
 *                               | 15 minutes are over | the sidecar drains
 *
 * Owns the streams and their bounds. Readers of one topic share its looks, and without a reader there is none. The token is in the
 * head of the request, as of every call, so it stands in no address and no log of a proxy.
 */

import type { ServerResponse } from 'node:http'
import type { Clock, Timer } from '../../core/clock.ts'
import type { OperatorToken } from '../../core/operator/operator-tokens.ts'

/** Of each kind: each is one person's page. Both kinds together leave room among the 32 calls in flight. */
export const STREAMS_MAX = 8
/** The page opens another one; a forgotten tab whose machine sleeps does not stay for ever. */
const STREAM_MS_MAX = 15 * 60_000
/** So many looks in a row a reader may have left something unread before its connection is cut. */
export const UNREAD_LOOKS_MAX = 10

/** What is watched. */
export type Topic = {
  /** From the end of a look to the next. */
  readonly everyMs: number
  look(): Promise<Look>
}

export type Look = {
  readonly event: () => unknown
  /** Who was sent this version already gets no event; undefined: every look is one. */
  readonly version?: string
}

export type EventStreams = {
  /**
   * @param key of the topic: who opens the same reads the same, so it has in it whatever the events depend on
   * @returns false at the limit
   */
  open(response: ServerResponse, operator: OperatorToken, key: string, topic: () => Topic): boolean
  endAll(): void
}

type EventStreamPorts = {
  readonly tokens: () => readonly OperatorToken[]
  readonly clock: Clock
  readonly onFailure: (cause: unknown) => void
}

type Stream = {
  readonly response: ServerResponse
  readonly operator: OperatorToken
  readonly untilMonoMs: number
  /** The last event that it was sent. */
  sent?: Frame
  unreadLooks: number
}

type Frame = { readonly version: string | undefined; readonly text: string }

type Channel = {
  readonly topic: Topic
  readonly streams: Set<Stream>
  latest?: Frame
  timer?: Timer | undefined
}

export function createEventStreams({ tokens, clock, onFailure }: EventStreamPorts): EventStreams {
  const channels = new Map<string, Channel>()
  const all = new Set<Stream>()

  function isAllowed({ operator: { name, role, token }, untilMonoMs }: Stream): boolean {
    const known = tokens().some((one) => one.name === name && one.role === role && one.token === token)
    return known && clock.monoMs() < untilMonoMs
  }

  /** The next event waits while one is unread: it will have all that this one would have shown. */
  function send(stream: Stream, frame: Frame): void {
    const { response } = stream
    const isUnread = response.writableLength > 0
    stream.unreadLooks = isUnread ? stream.unreadLooks + 1 : 0
    if (stream.unreadLooks > UNREAD_LOOKS_MAX) return void response.destroy()
    if (response.writableEnded) return
    if (!isAllowed(stream)) return void response.end()
    if (isUnread) return
    const isNew =
      stream.sent === undefined || frame.version === undefined || frame.version !== stream.sent.version
    if (isNew) stream.sent = frame
    // A comment says that the stream lives, to its reader and to every proxy on the way.
    response.write(isNew ? frame.text : ':\n\n')
  }

  async function look(channel: Channel): Promise<void> {
    const { topic, streams } = channel
    try {
      const { event, version } = await topic.look()
      const isKnown = version !== undefined && version === channel.latest?.version
      // JSON has no line feeds, so it is one line of data.
      if (!isKnown) channel.latest = { version, text: `data: ${JSON.stringify(event())}\n\n` }
      if (channel.latest !== undefined) for (const stream of streams) send(stream, channel.latest)
    } catch (cause) {
      onFailure(cause)
      for (const { response } of streams) response.end()
    }
    channel.timer = streams.size === 0 ? undefined : clock.timer(topic.everyMs, () => void look(channel))
  }

  function leave(key: string, channel: Channel, stream: Stream): void {
    all.delete(stream)
    channel.streams.delete(stream)
    if (channel.streams.size > 0) return
    channel.timer?.cancel()
    channel.timer = undefined
    if (channels.get(key) === channel) channels.delete(key)
  }

  return {
    open: (response, operator, key, topic) => {
      if (all.size >= STREAMS_MAX) return false
      // Its reader left while it was admitted, and no event would tell.
      if (response.destroyed) return true
      const stream = { response, operator, untilMonoMs: clock.monoMs() + STREAM_MS_MAX, unreadLooks: 0 }
      const known = channels.get(key)
      const channel = known ?? { topic: topic(), streams: new Set() }
      channels.set(key, channel)
      all.add(stream)
      channel.streams.add(stream)
      response.on('error', () => {})
      response.once('close', () => leave(key, channel, stream))
      // nginx keeps what comes last until more comes.
      response.writeHead(200, { 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' })
      response.flushHeaders()
      if (known === undefined) void look(channel)
      else if (channel.latest !== undefined) send(stream, channel.latest)
      return true
    },
    endAll: () => {
      for (const { response } of all) response.end()
    },
  }
}
