/**
 * Kinds of values of settings: how each is written, parsed, printed and described.
 *
 * Owns the notation. A value is accepted whole or refused, never repaired: `30` is no duration, `10abc` no number,
 * `yes` no switch. `parse` reads back what `print` writes as the same value (except secrets, which are masked). And the form of a row in the
 * table of settings: with a default, without one, and demanded.
 */

export type ReadFile = (path: string) => string

export type Parsed<T> =
  | { readonly kind: 'value'; readonly value: T }
  /** `reason` only if it adds to what is accepted. */
  | { readonly kind: 'refused'; readonly reason?: string }

export type ValueKind<T> = {
  /** Completes "accepted is …". */
  readonly accepts: string
  readonly parse: (text: string, readFile: ReadFile) => Parsed<T>
  /** In the notation of `parse`; secrets masked. */
  readonly print: (value: T) => string
  /** The form in which to show a refused text that could contain a secret. */
  readonly mask?: (text: string) => string
  /** The form of the value in YAML; see `textOf`. */
  readonly yaml: 'text' | 'quantity' | 'number' | 'switch' | 'list' | 'groups'
  /** JSON Schema (draft 2020-12) of that. */
  readonly schema: Readonly<Record<string, unknown>>
  /** Of a quantity, in the unit of the parsed value: its schema can't say them. */
  readonly limits?: { readonly min: number; readonly max: number }
}

export function value<T>(of: T): Parsed<T> {
  return { kind: 'value', value: of }
}

export function refused<T>(reason?: string): Parsed<T> {
  return reason === undefined ? { kind: 'refused' } : { kind: 'refused', reason }
}

/**
 * A value of the YAML file as the text that the environment would contain. A number does not count as text: `1.10` has
 * lost its zero before it gets here.
 */
export function textOf(node: unknown, kind: ValueKind<unknown>): Parsed<string> {
  if (typeof node === 'string') return value(node)
  switch (kind.yaml) {
    case 'text':
      return refused(typeof node === 'number' ? 'it is a number; put it in quotes' : 'it is not text')
    case 'quantity':
      // A bare number is then refused for its missing unit, which is the better message.
      return typeof node === 'number' ? value(String(node)) : refused('it is not text')
    case 'number':
      return typeof node === 'number' ? value(String(node)) : refused('it is not a number')
    case 'switch':
      return typeof node === 'boolean' ? value(node ? 'on' : 'off') : refused('it is neither true nor false')
    case 'list':
      return isTexts(node) ? value(node.join(',')) : refused('it is neither text nor a list of texts')
    case 'groups': {
      if (isTexts(node)) return value(node.join(','))
      const groups =
        typeof node === 'object' && node !== null && !Array.isArray(node) ? Object.entries(node) : []
      const parts = groups.flatMap(([name, texts]) => (isTexts(texts) ? [`${name}=${texts.join(',')}`] : []))
      return groups.length > 0 && parts.length === groups.length
        ? value(parts.join(';'))
        : refused('it is neither text nor a list of texts nor a mapping of names to such lists')
    }
  }
}

function isTexts(node: unknown): node is readonly string[] {
  return Array.isArray(node) && node.every((entry) => typeof entry === 'string')
}

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

type Names = readonly [env: Setting<unknown>['env'], path: string]
type Row<T> = Pick<Setting<T>, 'kind' | 'summary' | 'source'>
export type Optional<T> = Setting<T> & { readonly default: { readonly kind: 'none' } }

export function setting<T>(...[env, path, text, row]: [...Names, text: string, Row<T>]): Setting<T> {
  return { env, path, ...row, default: { kind: 'text', text } }
}

export function optional<T>(...[env, path, row]: [...Names, Row<T>]): Optional<T> {
  return { env, path, ...row, default: { kind: 'none' } }
}

export function required<T>(...[env, path, row]: [...Names, Row<T>]): Setting<T> {
  return { env, path, ...row, default: { kind: 'required' } }
}
