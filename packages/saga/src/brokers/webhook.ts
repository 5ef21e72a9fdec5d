/**
 * HTTP webhooks: the relay posts a message to the URL that its destination names, and the receiver's consumer answers
 * when it has committed. Without a broker between them, messages wait in the outbox.
 *
 * 2xx is the confirm. 503 and 429 with Retry-After mean "again later" and cost no attempt; every other status costs
 * one, and stops the aggregate for the relay's backoff. With a secret, requests are signed after the Standard Webhooks
 * specification; the receiver refuses what is unsigned, altered or older than five minutes.
 *
 * Source: https://github.com/standard-webhooks/standard-webhooks (specification).
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { processClock } from '../ambient.ts'
import type { Clock } from '../core.ts'
import { PublishDeferredError, PublishRefusedError, SagaConfigError } from '../errors.ts'
import {
  type Body,
  bodyOf,
  type Delivery,
  type MessagePublisher,
  type MessageSubscriber,
  propertiesOf,
  propertyHeader,
  shownDestination,
  type Verdict,
} from '../messages.ts'
import { requirePositive } from '../option-checks.ts'

export type WebhookPublisherOptions = {
  /** The same as the receiver's: `whsec_` and the key in base64, as Standard Webhooks writes it, or a text. At least 24 bytes. */
  readonly secret?: string
  readonly clock?: Clock
}

export function createWebhookPublisher({
  secret,
  clock = processClock,
}: WebhookPublisherOptions): MessagePublisher {
  const key = keyOf(secret)
  return {
    async publish(message, signal) {
      const headers: Record<string, string> = {
        ...encoded({ ...message.headers, ...propertiesOf(message) }),
        'content-type': 'application/json',
        'idempotency-key': `"${message.messageId}"`,
        ...(key === undefined ? {} : signature(key, message.messageId, clock.wallMs(), message.body)),
      }
      let response: Response
      try {
        response = await fetch(message.destination, {
          method: 'POST',
          headers,
          body: message.body,
          signal,
          redirect: 'manual',
        })
      } catch (error) {
        throw new PublishRefusedError(`no answer from ${shownDestination(message.destination)}`, {
          cause: error,
        })
      }
      await response.body?.cancel()
      if (response.ok) return
      const retryAfterMs = delayIn(response.headers.get('retry-after'), clock.wallMs())
      if ((response.status === 503 || response.status === 429) && retryAfterMs !== undefined)
        throw new PublishDeferredError(
          `${shownDestination(message.destination)} asks to come again`,
          retryAfterMs,
        )
      throw new PublishRefusedError(`${shownDestination(message.destination)} answered ${response.status}`)
    },
    async close() {},
  }
}

/** Short enough to be guessed, it would sign nothing. */
const secretMinBytes = 24

/** How Standard Webhooks writes a secret down: this, and the bytes of the key in base64. */
const encodedSecret = 'whsec_'

/** The bytes that sign. An empty secret is mostly a variable that is not set. */
function keyOf(secret: string | undefined): Buffer | undefined {
  if (secret === undefined) return undefined
  const isEncoded = secret.startsWith(encodedSecret)
  const key = isEncoded ? decodedKey(secret.slice(encodedSecret.length)) : Buffer.from(secret)
  if (key.length < secretMinBytes)
    throw new SagaConfigError(
      `secret: a ${isEncoded ? 'key' : 'text'} of ${key.length} bytes (at least ${secretMinBytes} expected)`,
    )
  return key
}

function decodedKey(text: string): Buffer {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text))
    throw new SagaConfigError(
      `secret: what follows ${encodedSecret} is no base64 (the bytes of the key in base64 expected)`,
    )
  return Buffer.from(text, 'base64')
}

/**
 * Of a Retry-After. One answer must not stop an aggregate for years; and it costs no attempt, so that "at once", or an instant that
 * is over by our clock, would be a request for every poll of the relay, for ever.
 */
const deferMs = { min: 1_000, max: 3_600_000 }

/** Seconds or an HTTP date (RFC 9110, section 10.2.3); undefined for anything else. */
function delayIn(retryAfter: string | null, wallMs: number): number | undefined {
  if (retryAfter === null) return undefined
  const delayMs = /^\d+(\.\d+)?$/.test(retryAfter)
    ? Number(retryAfter) * 1_000
    : Date.parse(retryAfter) - wallMs
  return Number.isNaN(delayMs) ? undefined : Math.min(Math.max(delayMs, deferMs.min), deferMs.max)
}

/** A value that no header can carry becomes an extended value: RFC 8187, section 3.2.1. */
const extended = "UTF-8''"

function encoded(headers: Record<string, string>): Record<string, string> {
  return mapped(headers, (value) =>
    /^[\t\x20-\x7e\x80-\xff]*$/.test(value) && value === value.trim() && !value.startsWith(extended)
      ? value
      : `${extended}${encodeURIComponent(value.toWellFormed())}`,
  )
}

function decoded(headers: Record<string, string>): Record<string, string> {
  return mapped(headers, (value) => {
    if (!value.startsWith(extended)) return value
    try {
      return decodeURIComponent(value.slice(extended.length))
    } catch {
      // Another sender's value, kept as received.
      return value
    }
  })
}

function mapped(headers: Record<string, string>, map: (value: string) => string): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, map(value)]))
}

export type WebhookReceiverOptions = {
  /** The senders', as for the publisher: that of a provider begins with `whsec_`. */
  readonly secret?: string
  /** Larger bodies are refused with 413. Default 1 MiB. */
  readonly maxBodyBytes?: number
  /** A body that has not arrived within this time is refused with 408. Default 10 s. */
  readonly bodyTimeoutMs?: number
  readonly clock?: Clock
}

export type WebhookReceiver = MessageSubscriber & {
  /** Mount it where the senders post: `createServer(receiver.listener)`. */
  readonly listener: RequestListener
}

/** Older signatures are refused: a recorded request cannot be replayed next week. */
const toleranceMs = 5 * 60_000

export function createWebhookReceiver(options: WebhookReceiverOptions = {}): WebhookReceiver {
  const { secret, maxBodyBytes = 1024 * 1024, bodyTimeoutMs = 10_000, clock = processClock } = options
  const key = keyOf(secret)
  requirePositive({ maxBodyBytes, bodyTimeoutMs })
  const bodies = new Bodies({ clock, maxBodyBytes, bodyTimeoutMs })
  let handle: ((delivery: Delivery) => Promise<Verdict>) | undefined
  let limit = 0
  let onError: (error: unknown) => void = () => {}
  /** Deliveries in the handler: of verified senders, where there is a secret. */
  const running = new Set<Promise<Verdict>>()

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') return answer(response, 405, { allow: 'POST' })
    const body = await bodies.read(request)
    if (!Buffer.isBuffer(body)) return refuse(response, body)
    const headers = inStandardNames(
      Object.fromEntries(Object.entries(request.headers).map(([name, value]) => [name, String(value)])),
    )
    if (key !== undefined && !isSigned(key, headers, body, clock.wallMs())) return answer(response, 401)
    const delivery = deliveryOf(headers, bodyOf(body), key !== undefined)
    // The signature covers this id; the consumer must know the message by the same one.
    const id = delivery.headers[propertyHeader.messageId]
    if (delivery.signedId !== undefined && id !== undefined && id !== delivery.signedId)
      return answer(response, 401)
    if (handle === undefined || running.size >= limit) return answer(response, 503, { 'retry-after': '1' })
    const handled = handle(delivery)
    running.add(handled)
    const verdict = await handled.finally(() => running.delete(handled))
    switch (verdict.kind) {
      case 'ack':
        return answer(response, 204)
      case 'refuse':
        return answer(response, 400)
      case 'again':
        return answer(response, 503, { 'retry-after': String(Math.max(0, verdict.delayMs / 1000)) })
    }
  }

  return {
    listener: (request, response) => {
      serve(request, response).catch((error: unknown) => {
        onError(error)
        if (!response.headersSent) answer(response, 500)
      })
    },
    async subscribe(next, { concurrency, onError: report }) {
      handle = next
      limit = concurrency
      onError = report
      return {
        async close() {
          handle = undefined
          await Promise.allSettled(running)
        },
      }
    },
  }
}

function answer(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response.writeHead(status, headers).end()
}

/** Nobody is there to read an answer without a status. */
function refuse(response: ServerResponse, { status }: Unread): void {
  if (status !== undefined) answer(response, status, refusalHeaders[status])
}

const refusalHeaders = { 408: { connection: 'close' }, 413: {}, 503: { 'retry-after': '1' } } as const

const properties = ['content-type', 'idempotency-key', 'webhook-id'] as const

function deliveryOf(headers: Record<string, string>, body: Body, isSigned: boolean): Delivery {
  return {
    headers: decoded(carried(headers)),
    properties: Object.fromEntries(
      properties.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]])),
    ),
    ...body,
    redelivered: false,
    canRefuse: true,
    ...(isSigned ? { signedId: headers['webhook-id'] ?? '' } : {}),
  }
}

/** Svix, from which the specification came, still sends the same three under its own name; each of them or none. */
function inStandardNames(headers: Record<string, string>): Record<string, string> {
  if (headers['webhook-id'] !== undefined || headers['svix-id'] === undefined) return headers
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.replace(/^svix-/, 'webhook-'), value]),
  )
}

/** The headers of a request that belong to the message, not to HTTP. Its credentials would be kept with a dead letter. */
function carried(headers: Record<string, string>): Record<string, string> {
  const http =
    /^(host|connection|content-.*|accept.*|user-agent|transfer-encoding|sec-.*|webhook-.*|idempotency-key|expect|authorization|proxy-authorization|cookie)$/
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !http.test(name)))
}

function signature(key: Buffer, id: string, wallMs: number, body: string): Record<string, string> {
  const timestamp = String(Math.floor(wallMs / 1000))
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${mac(key, id, timestamp, body)}`,
  }
}

function mac(key: Buffer, id: string, timestamp: string, body: string | Buffer): string {
  return createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')
}

function isSigned(key: Buffer, headers: Record<string, string>, body: Buffer, wallMs: number): boolean {
  const id = headers['webhook-id'] ?? ''
  const timestamp = headers['webhook-timestamp'] ?? ''
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(wallMs - Number(timestamp) * 1000) > toleranceMs) return false
  const expected = Buffer.from(`v1,${mac(key, id, timestamp, body)}`)
  // While a secret is being changed, several signatures stand side by side.
  return (headers['webhook-signature'] ?? '').split(' ').some((given) => {
    const bytes = Buffer.from(given)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  })
}

/** The status to answer, or undefined for a sender that has gone. */
type Unread = { readonly status: 408 | 413 | 503 | undefined }

type BodyLimits = { readonly clock: Clock; readonly maxBodyBytes: number; readonly bodyTimeoutMs: number }

/** So many bodies of the largest size may be held together. */
const bodiesMax = 64

type Reading = { bytes: number; readonly end: (result: Buffer | Unread) => void }

/**
 * Reads the bodies of requests. Who sends one is known only when the signature over its body is checked, so everyone may
 * send: each body has a largest size and a time, and all that are being read together hold a bounded number of bytes.
 *
 * Where the bytes run out, the oldest body is given up: an honest sender's is there within milliseconds, and the oldest
 * is that of one who sends slowly.
 */
export class Bodies {
  readonly #limits: BodyLimits
  /** Oldest first. */
  readonly #reading = new Set<Reading>()
  #heldBytes = 0

  constructor(limits: BodyLimits) {
    this.#limits = limits
  }

  read(request: IncomingMessage): Promise<Buffer | Unread> {
    const { clock, maxBodyBytes, bodyTimeoutMs } = this.#limits
    return new Promise((resolve) => {
      let kept = Buffer.alloc(0)
      const take = (chunk: Buffer) => {
        const bytes = reading.bytes + chunk.length
        if (bytes > maxBodyBytes) {
          reading.end({ status: 413 })
          return
        }
        kept = withRoom(kept, bytes)
        chunk.copy(kept, reading.bytes)
        reading.bytes = bytes
        this.#heldBytes += chunk.length
        this.#makeRoom()
      }
      const end = (result: Buffer | Unread) => {
        if (!this.#reading.delete(reading)) return
        this.#heldBytes -= reading.bytes
        // The rest is thrown away, so that a sender in the middle of it gets to read the answer.
        request.off('data', take).resume()
        resolve(result)
      }
      const reading: Reading = { bytes: 0, end }
      this.#reading.add(reading)
      const timer = clock.timer(bodyTimeoutMs, () => {
        if (this.#reading.has(reading)) end({ status: 408 })
        else request.destroy()
      })
      request.on('data', take)
      request.once('end', () => {
        timer.cancel()
        end(kept.subarray(0, reading.bytes))
      })
      request.once('error', () => {})
      request.once('close', () => {
        timer.cancel()
        end({ status: undefined })
      })
      if (Number(request.headers['content-length'] ?? 0) > maxBodyBytes) end({ status: 413 })
    })
  }

  #makeRoom(): void {
    const most = bodiesMax * this.#limits.maxBodyBytes
    for (const oldest of this.#reading) {
      if (this.#heldBytes <= most) return
      oldest.end({ status: 503 })
    }
  }
}

/** Chunks are copied: as an object of its own one of a single byte takes hundreds, and the sender chooses how it cuts its body. */
function withRoom(kept: Buffer<ArrayBuffer>, bytes: number): Buffer<ArrayBuffer> {
  if (bytes <= kept.length) return kept
  const larger = Buffer.alloc(Math.max(bytes, 2 * kept.length))
  kept.copy(larger)
  return larger
}
