/**
 * The overview once a second, as server-sent events, for as long as somebody looks.
 *
 *   open → (event)* → the reader leaves | its token is gone | it reads too slowly | 15 minutes are over | the sidecar drains
 *
 * Owns the streams and their bounds. One timer for all, and none without a reader. The token is in the head of the request, as of
 * every call, so it stands in no address and no log of a proxy.
 */

import type { ServerResponse } from 'node:http'
import type { Clock, Timer } from '../../core/clock.ts'
import type { OperatorToken } from '../../core/operator/operator-tokens.ts'

/** Each is one person's page; they leave room among the 32 calls in flight. */
export const STREAMS_MAX = 8
const EVERY_MS = 1_000
/** The page opens another one; a forgotten tab whose machine sleeps does not stay for ever. */
const STREAM_MS_MAX = 15 * 60_000
/** How much a reader may leave unread before its connection is cut. */
const UNREAD_BYTES_MAX = 256 * 1024

export type OverviewStreams = {
  /** False at the limit. */
  open(response: ServerResponse, operator: OperatorToken): boolean
  endAll(): void
}

type Stream = {
  readonly response: ServerResponse
  readonly operator: OperatorToken
  readonly untilMonoMs: number
}

export function createOverviewStreams(
  overview: () => unknown,
  tokens: () => readonly OperatorToken[],
  clock: Clock,
): OverviewStreams {
  const streams = new Set<Stream>()
  let timer: Timer | undefined

  function isAllowed({ operator, untilMonoMs }: Stream): boolean {
    const known = tokens().some(({ name, token }) => name === operator.name && token === operator.token)
    return known && clock.monoMs() < untilMonoMs
  }

  function tick(): void {
    const event = eventOf(overview())
    for (const stream of streams) {
      const { response } = stream
      if (!isAllowed(stream)) response.end()
      else if (response.writableLength > UNREAD_BYTES_MAX) response.destroy()
      else response.write(event)
    }
    timer = streams.size === 0 ? undefined : clock.timer(EVERY_MS, tick)
  }

  return {
    open: (response, operator) => {
      if (streams.size >= STREAMS_MAX) return false
      const stream = { response, operator, untilMonoMs: clock.monoMs() + STREAM_MS_MAX }
      response.on('error', () => {})
      response.once('close', () => {
        streams.delete(stream)
        if (streams.size > 0) return
        timer?.cancel()
        timer = undefined
      })
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      response.write(eventOf(overview()))
      streams.add(stream)
      timer ??= clock.timer(EVERY_MS, tick)
      return true
    },
    endAll: () => {
      for (const { response } of streams) response.end()
    },
  }
}

/** JSON has no line feeds, so it is one line of data. */
function eventOf(overview: unknown): string {
  return `data: ${JSON.stringify(overview)}\n\n`
}
