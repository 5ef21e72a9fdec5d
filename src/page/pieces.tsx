/** What several views are made of: states, times, lists of facts, and what is shown while an answer is awaited. */

import type { ComponentChildren } from 'preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import type { Entries } from '../http/operator/overview-schemas.ts'
import type { Session } from './api.ts'
import { sentenceOf } from './api.ts'
import { timeOf } from './words.ts'

/** A word for it always stands beside the colour. */
type Tone = 'good' | 'warn' | 'bad' | 'plain'

const TONES: Readonly<Record<string, Tone>> = {
  completed: 'good',
  voting: 'good',
  live: 'warn',
  claimed: 'plain',
  expired: 'bad',
  damaged: 'bad',
  unknown: 'bad',
  down: 'bad',
  unfit: 'bad',
  silent: 'bad',
  quarantined: 'warn',
  suspended: 'warn',
}

export function Badge({ word, tone }: { readonly word: string; readonly tone?: Tone }) {
  return <span class={`badge ${tone ?? TONES[word] ?? 'plain'}`}>{word}</span>
}

export function Time({ at }: { readonly at: string }) {
  return <time dateTime={at}>{timeOf(at)}</time>
}

/** Terms and what is known of them; a fact that is not known is left out. */
export function Facts({ of }: { readonly of: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {of
        .filter(([, value]) => value !== undefined && value !== '')
        .map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  )
}

export function Button({
  onClick,
  children,
}: {
  readonly onClick: () => void
  readonly children: ComponentChildren
}) {
  return (
    <button type="button" onClick={onClick}>
      {children}
    </button>
  )
}

export function LookAgain({ onClick }: { readonly onClick: () => void }) {
  return (
    <p>
      <Button onClick={onClick}>Look again</Button>
    </p>
  )
}

export function Failure({ error }: { readonly error: unknown }) {
  return (
    <p class="failure" role="alert">
      {sentenceOf(error)}
    </p>
  )
}

/** The heading of a view, which gets the focus when the view is opened: a screen reader then reads on from there. */
export function Heading({
  children,
  title,
}: {
  readonly children: ComponentChildren
  readonly title: string
}) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} – fencepost`
    heading.current?.focus()
  }, [title])
  return (
    <h1 ref={heading} tabIndex={-1}>
      {children}
    </h1>
  )
}

type Loaded<T> =
  | { readonly kind: 'loading' }
  | { readonly kind: 'failed'; readonly error: unknown }
  /** `at`: when it came, by the clock of the reader's machine. */
  | { readonly kind: 'known'; readonly value: T; readonly at: string }

/** An answer, and a way to ask for it again. What is known stays on the page until the next answer is there. */
export function useAnswer<T>(ask: () => Promise<T>, about: string): readonly [Loaded<T>, () => void] {
  const [loaded, setLoaded] = useState<Loaded<T>>({ kind: 'loading' })
  const latest = useRef(0)
  const again = useCallback(() => {
    latest.current += 1
    const mine = latest.current
    ask().then(
      (value) => mine === latest.current && setLoaded({ kind: 'known', value, at: new Date().toISOString() }),
      (error: unknown) => mine === latest.current && setLoaded({ kind: 'failed', error }),
    )
  }, [about])
  useEffect(() => {
    setLoaded({ kind: 'loading' })
    again()
    return () => {
      latest.current += 1
    }
  }, [again])
  return [loaded, again]
}

export function Answer<T>({
  of,
  children,
}: {
  readonly of: Loaded<T>
  readonly children: (value: T) => ComponentChildren
}) {
  switch (of.kind) {
    case 'loading':
      return <p role="status">Looking …</p>
    case 'failed':
      return <Failure error={of.error} />
    case 'known':
      return <>{children(of.value)}</>
  }
}

/** Text as it is. It scrolls where it is long, also by keyboard. */
export function Verbatim({ text }: { readonly text: string }) {
  // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
  return <pre tabIndex={0}>{text}</pre>
}

/** A wide table scrolls by itself, also by keyboard. */
export function TableOf({
  caption,
  heads,
  children,
}: {
  readonly caption: string
  readonly heads: readonly string[]
  readonly children: ComponentChildren
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reachable by keyboard
    <section class="scrolls" tabIndex={0} aria-label={caption}>
      <table>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  )
}

/** Entries of the audit log a page at a time, from the newest on. */
type Paged = {
  readonly loaded: Loaded<Entries>
  readonly again: () => void
  /** Undefined on the first page. */
  readonly newest: (() => void) | undefined
  /** Undefined on the last page. */
  readonly older: (() => void) | undefined
}

export function usePages(session: Session, path: '/audit' | '/dead-letters', limit: number): Paged {
  const [cursor, setCursor] = useState<string>()
  const at = cursor === undefined ? '' : `&cursor=${cursor}`
  const [loaded, again] = useAnswer(
    () => session.api.get<Entries>(`${path}?limit=${limit}${at}`),
    `${path}${at}`,
  )
  const next = loaded.kind === 'known' ? loaded.value.cursor : undefined
  return {
    loaded,
    again,
    newest: cursor === undefined ? undefined : () => setCursor(undefined),
    older: next === undefined ? undefined : () => setCursor(next),
  }
}

export function Pages({ newest, older }: Pick<Paged, 'newest' | 'older'>) {
  if (newest === undefined && older === undefined) return undefined
  return (
    <p>
      {newest === undefined ? undefined : <Button onClick={newest}>Newest</Button>}{' '}
      {older === undefined ? undefined : <Button onClick={older}>Older</Button>}
    </p>
  )
}
