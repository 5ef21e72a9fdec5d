/**
 * What a view shows, followed by a stream for as long as the view is open and its tab is seen.
 *
 * Owns when a stream is open. A hidden tab has none: a browser opens six connections to one server over HTTP/1.1, and six tabs
 * with a stream each would keep every other call waiting.
 */

import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { Session } from './api.ts'
import { Refused, sentenceOf } from './api.ts'

/** After a stream that ended; the sidecar ends each after 15 minutes. */
const AGAIN_AFTER_MS = 2_000

/** `at`: when it came, by the clock of the reader's machine. */
export type Known<T> = { readonly value: T; readonly at: string }

export type Live<T> = {
  readonly known: Known<T> | undefined
  /** Why it is not live at the moment. */
  readonly trouble: string | undefined
  /** Why it could not be looked at. */
  readonly failure: string | undefined
  /** Looks now, stream or not; undefined where that failed, or the stream was faster. */
  readonly again: () => Promise<Known<T> | undefined>
}

/** @param path answers once what its `/events` send */
export function useLive<T>({ api }: Session, path: string): Live<T> {
  const [known, setKnown] = useState<Known<T>>()
  const [trouble, setTrouble] = useState<string>()
  const [failure, setFailure] = useState<string>()
  /** Counts what came and was asked for: an answer that a later event overtook would bring back what was before. */
  const latest = useRef(0)
  const take = (value: T): Known<T> => {
    const now = { value, at: new Date().toISOString() }
    setKnown(now)
    setFailure(undefined)
    return now
  }
  const again = useCallback(async () => {
    latest.current += 1
    const mine = latest.current
    try {
      const value = await api.get<T>(path)
      return mine === latest.current ? take(value) : undefined
    } catch (error) {
      if (mine === latest.current) setFailure(sentenceOf(error))
      return undefined
    }
  }, [api, path])
  useEffect(() => {
    let over = new AbortController()
    let timer: ReturnType<typeof setTimeout> | undefined
    let isKnown = false
    const follow = async (signal: AbortSignal) => {
      try {
        await api.watch<T>(
          `${path}/events`,
          (value) => {
            latest.current += 1
            isKnown = true
            take(value)
            setTrouble(undefined)
          },
          signal,
        )
      } catch (error) {
        if (signal.aborted) return
        const { code, status } = error instanceof Refused ? error : { code: '', status: 0 }
        // An end in good order is followed by the next stream; the reader need not hear of it.
        if (code !== 'stream-ended') setTrouble(sentenceOf(error))
        if (!isKnown) void again()
        // What is wrong with the call itself stays wrong.
        if (status < 400 || status >= 500) timer = setTimeout(() => void follow(signal), AGAIN_AFTER_MS)
      }
    }
    const stop = () => {
      over.abort()
      clearTimeout(timer)
    }
    const followWhileSeen = () => {
      stop()
      if (document.hidden) return
      over = new AbortController()
      void follow(over.signal)
    }
    followWhileSeen()
    document.addEventListener('visibilitychange', followWhileSeen)
    return () => {
      document.removeEventListener('visibilitychange', followWhileSeen)
      stop()
      latest.current += 1
    }
  }, [api, path, again])
  return { known, trouble, failure, again }
}
