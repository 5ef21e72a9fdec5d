/** One request of the probe, and its whole answer: an answer that breaks off is none. */

export type Reply =
  | { readonly kind: 'reply'; readonly status: number; readonly headers: Headers; readonly text: string }
  | { readonly kind: 'none'; readonly why: string }

export type FloodOptions = {
  /** Of the listeners of this entry point; copies are sent to them in turn. */
  readonly urls: readonly string[]
  readonly copies: number
  /** Of the reservation API and of the gateway listener. */
  readonly token: string | undefined
  /** Distinguishes the requests of this run from those of any other. */
  readonly run: string
  readonly tenant: string
  /** Of reservations, such as `1m`; what the other entry points keep is said by the sidecar's route. */
  readonly retention: string
  /** Of the synthetic requests. */
  readonly path: string
  readonly timeoutMs: number
}

/** The `Host` of synthetic requests that a gateway hands on. */
export const PROBED_HOST = 'fencepost-probe'

/** A request as Envoy hands it on. */
type EnvoyRequest = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly host: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}
export type EnvoyAnswer = { readonly status: number; readonly headers: Headers; readonly text: string }

/** Envoy's side of its two gRPC services; `http/envoy/caller.ts` speaks it. Both reject where there is no reply. */
export type EnvoyCaller = {
  check(url: string, request: EnvoyRequest, timeoutMs: number): Promise<EnvoyAnswer>
  process(
    url: string,
    request: EnvoyRequest,
    execute: () => EnvoyAnswer,
    timeoutMs: number,
  ): Promise<EnvoyAnswer>
}

export async function replyOf(answering: Promise<EnvoyAnswer>): Promise<Reply> {
  try {
    return { kind: 'reply', ...(await answering) }
  } catch (cause) {
    return noReply(cause)
  }
}

function noReply(cause: unknown): Reply {
  return { kind: 'none', why: whyNoAnswer(cause) }
}

export async function post(
  url: string,
  headers: Readonly<Record<string, string>>,
  body: string,
  timeoutMs: number,
): Promise<Reply> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers,
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(timeoutMs),
    })
    return {
      kind: 'reply',
      status: response.status,
      headers: response.headers,
      text: await response.text(),
    }
  } catch (cause) {
    return noReply(cause)
  }
}

/** The copies of volley `number` go to all listeners, and do not all begin with the first. */
export function listenerOf({ urls }: FloodOptions, number: number, copy: number): string {
  return urls[(number + copy) % urls.length] as string
}

export function statusOf(reply: Reply): number | undefined {
  return reply.kind === 'reply' ? reply.status : undefined
}

/** Of a JSON object; undefined where the answer is none, or has no such member. */
export function memberOf(reply: Reply, name: string): unknown {
  if (reply.kind === 'none') return undefined
  try {
    const body: unknown = JSON.parse(reply.text)
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>)[name] : undefined
  } catch {
    return undefined
  }
}

export function headerOf(reply: Reply, name: string): string | undefined {
  return reply.kind === 'reply' ? (reply.headers.get(name) ?? undefined) : undefined
}

/** For a finding that is not `ok`. */
export function saidBy(url: string, reply: Reply): string {
  if (reply.kind === 'none') return `${url}: ${reply.why}`
  const code = memberOf(reply, 'code')
  return `${url} answered ${reply.status}${typeof code === 'string' ? ` ${code}` : ''}`
}

/** `fetch` says only "fetch failed", and keeps the reason in its cause. */
function whyNoAnswer(error: unknown): string {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(reason instanceof Error)) return String(reason)
  // Of an address with several numbers each was tried: the error of all has a code, and no message.
  return reason.message || String((reason as { code?: string }).code ?? reason.name)
}
