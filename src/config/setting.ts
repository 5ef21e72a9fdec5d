/** The form of a row in the table of settings, and its three kinds: with a default, without one, and demanded. */

import type { ValueKind } from './value.ts'

export type Setting<T> = {
  readonly env: `FENCEPOST_${string}`
  /** Path in the YAML file. */
  readonly path: string
  readonly kind: ValueKind<T>
  /** `none`: undefined if not set. `required`: an error if not set. */
  readonly default: { readonly kind: 'text'; readonly text: string } | { readonly kind: 'none' | 'required' }
  /** One sentence. */
  readonly summary: string
  /** Why this default, and its source. */
  readonly source: string
}

type Row<T> = Omit<Setting<T>, 'default'>
export type Optional<T> = Setting<T> & { readonly default: { readonly kind: 'none' } }

export function setting<T>(row: Row<T> & { readonly default: string }): Setting<T> {
  return { ...row, default: { kind: 'text', text: row.default } }
}

export function optional<T>(row: Row<T>): Optional<T> {
  return { ...row, default: { kind: 'none' } }
}

export function required<T>(row: Row<T>): Setting<T> {
  return { ...row, default: { kind: 'required' } }
}
