/** Entries of the audit log a page at a time, from the newest on. */

import { useState } from 'preact/hooks'
import type { Entries } from '../http/operator/overview-schemas.ts'
import { type Loaded, useAnswer } from './pieces.tsx'
import type { Session } from './session.ts'

export type Paged = {
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
      {newest === undefined ? undefined : (
        <button type="button" onClick={newest}>
          Newest
        </button>
      )}{' '}
      {older === undefined ? undefined : (
        <button type="button" onClick={older}>
          Older
        </button>
      )}
    </p>
  )
}
