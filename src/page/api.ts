/**
 * Calls of the operator API from the page, with the token that its reader typed.
 *
 * Owns the token: it is kept in this closure alone, never in storage, a cookie, an address or the document, and is gone
 * when the tab is closed or reloaded.
 */

import type { Me } from '../http/operator/overview-schemas.ts'

export class Refused extends Error {
  override readonly name = 'Refused'
  /** 0 where there was no answer. */
  readonly status: number
  /** Of the problem document; of an answer that is none, its status. */
  readonly code: string

  constructor(status: number, code: string, detail: string) {
    super(detail)
    this.status = status
    this.code = code
  }
}

export type Api = {
  get<T>(path: string): Promise<T>
  post<T>(path: string, body: unknown): Promise<T>
  /** What a stream of events sends, until `over`. Rejects where the stream ends. */
  watch<T>(path: string, onEvent: (value: T) => void, over: AbortSignal): Promise<void>
}

/** A token as the tokens file has it; a header takes nothing else. */
export const TOKEN = /^[\x21-\x7e]+$/

const BASE = '/v1/operator'
/** Far above any healthy answer: a decision looks at five nodes twice. */
const TIMEOUT_MS = 30_000
/** A stream sends something every two seconds. One that was cut without a word, by a machine that slept, is silent. */
const SILENCE_MS = 15_000

/** @param onLost called where the token is no longer accepted */
export function createApi(token: string, onLost: () => void): Api {
  const send = async (path: string, init: RequestInit): Promise<Response> => {
    const response = await fetch(BASE + path, {
      ...init,
      // Nothing of the browser's own goes along, and nothing is kept of the answer.
      credentials: 'omit',
      cache: 'no-store',
      redirect: 'error',
      referrerPolicy: 'no-referrer',
      headers: { ...init.headers, authorization: `Bearer ${token}` },
    }).catch((cause: unknown) => {
      if (cause instanceof DOMException && cause.name === 'AbortError') throw cause
      throw new Refused(0, 'no-answer', 'The sidecar did not answer. Is it running, and reachable from here?')
    })
    if (response.ok) return response
    const problem = (await response.json().catch(() => ({}))) as { code?: string; detail?: string }
    if (response.status === 401) onLost()
    throw new Refused(
      response.status,
      problem.code ?? String(response.status),
      problem.detail ?? `The sidecar answered ${response.status}.`,
    )
  }
  const json = async <T>(path: string, init: RequestInit): Promise<T> => {
    const response = await send(path, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) })
    return response.json().catch(() => {
      throw new Refused(0, 'no-answer', 'The answer broke off, or is none of a sidecar.')
    }) as Promise<T>
  }

  return {
    get: (path) => json(path, {}),
    post: (path, body) =>
      json(path, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      }),
    watch: async (path, onEvent, over) => {
      const silence = new AbortController()
      let timer: ReturnType<typeof setTimeout> | undefined
      const heard = () => {
        clearTimeout(timer)
        timer = setTimeout(() => silence.abort(), SILENCE_MS)
      }
      try {
        heard()
        const { body } = await send(path, { signal: AbortSignal.any([over, silence.signal]) })
        if (body === null) throw new Refused(0, 'no-answer', 'The sidecar sent no stream.')
        for await (const data of eventsIn(body, heard)) onEvent(JSON.parse(data))
        throw new Refused(0, 'stream-ended', 'The stream ended.')
      } catch (error) {
        if (!silence.signal.aborted) throw error
        throw new Refused(0, 'no-answer', `The sidecar sent nothing for ${SILENCE_MS / 1_000} s.`)
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/**
 * The data of each server-sent event. `EventSource` can send no Authorization header, so the stream is read here; the sidecar sends
 * one line of data an event, which is all of the format that is read besides comments.
 */
async function* eventsIn(body: ReadableStream<Uint8Array>, onChunk: () => void): AsyncGenerator<string> {
  const reader = body
    .pipeThrough(new TextDecoderStream() as unknown as ReadableWritablePair<string, Uint8Array>)
    .getReader()
  let rest = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      onChunk()
      const parts = (rest + value).split('\n\n')
      rest = parts.pop() ?? ''
      for (const part of parts) if (part.startsWith('data: ')) yield part.slice('data: '.length)
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}

/** Nobody who knows has answered: what was asked for may have been done. */
export function isInDoubt(error: unknown): boolean {
  return error instanceof Refused && (error.status === 0 || error.code === String(error.status))
}

/** One sentence for the reader. */
export function sentenceOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Who reads the page, and the calls that are made in that name; gone with the tab. */
export type Session = { readonly api: Api; readonly operator: Me }
