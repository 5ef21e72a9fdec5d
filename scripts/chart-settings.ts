/**
 * `npm run generate -- chart-settings`: writes what the charts know of fencepost's settings, so that Helm refuses a wrong one when it renders:
 * the table in deploy/helm/fencepost-lib/templates/_settings.tpl, and `config` in deploy/helm/fencepost/values.schema.json.
 *
 * A test compares the files with what this makes, and the verdict of the charts with that of the parser, setting by setting. Addresses,
 * networks and the content of files are left to fencepost itself.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileSchema } from '../src/config/route-fields.ts'
import { NAMES_OF_OTHERS, rowOf, SETTING_KEYS } from '../src/config/settings.ts'
import type { ValueKind } from '../src/config/value.ts'

const helm = join(import.meta.dirname, '../deploy/helm')
export const TABLE_FILE = join(helm, 'fencepost-lib/templates/_settings.tpl')
export const SCHEMA_FILE = join(helm, 'fencepost/values.schema.json')

type Row = {
  readonly path: string
  readonly accepts: string
  /** What the part `fencepost-lib.settingFault` compares. */
  readonly kind: 'duration' | 'size' | 'integer' | 'pattern' | 'fraction' | 'text'
  readonly pattern?: string
  readonly min?: number
  readonly max?: number
  /** Absent: the setting has none. */
  readonly default?: string
}

export function tableText(): string {
  const rows = SETTING_KEYS.map((key) => {
    const { env, path, kind, default: fallback } = rowOf(key)
    const byDefault = fallback.kind === 'text' ? { default: fallback.text } : {}
    const row: Row = { path, accepts: kind.accepts, ...checkOf(kind), ...byDefault }
    return `  ${JSON.stringify(env)}: ${JSON.stringify(row)}`
  })
  return [
    '{{- /* Written by `npm run generate -- chart-settings` from src/config/settings.ts; do not edit by hand. */ -}}',
    `{{- define "fencepost-lib.settingsTable" -}}\n{\n${rows.join(',\n')}\n}\n{{- end }}`,
    `{{- define "fencepost-lib.namesOfOthers" -}}\n${JSON.stringify(NAMES_OF_OTHERS)}\n{{- end }}`,
    '',
  ].join('\n\n')
}

function checkOf({ schema, limits }: ValueKind<unknown>): Omit<Row, 'path' | 'accepts'> {
  const { type, pattern, minimum, maximum, enum: options, anyOf } = schema
  if (limits !== undefined)
    return {
      kind: String(pattern).includes('KiB') ? 'size' : 'duration',
      pattern: String(pattern),
      ...limits,
    }
  if (type === 'integer')
    return {
      kind: 'integer',
      pattern: '^(0|[1-9][0-9]{0,14})$',
      min: Number(minimum),
      max: Number(maximum),
    }
  if (Array.isArray(options)) {
    const words = options.filter((option) => typeof option === 'string')
    return { kind: 'pattern', pattern: `^(${words.join('|')})$` }
  }
  if (typeof pattern === 'string') return { kind: 'pattern', pattern }
  const isFraction = Array.isArray(anyOf) && anyOf.some((one) => one.type === 'number')
  return isFraction
    ? { kind: 'fraction', pattern: '^([0-9]([.][0-9]{1,17})?|[0-9]{1,9}/[1-9][0-9]{0,8})$' }
    : { kind: 'text', pattern: '.' }
}

/** One line, so that the rest of the file stays as it is written by hand. */
export function schemaText(written: string): string {
  const { $schema: _, title: __, ...schema } = fileSchema()
  const line = `    "config": ${JSON.stringify({ ...schema, type: 'object' }, forGo)},`
  const next = written.replace(/^ {4}"config": .*$/m, () => line)
  if (!next.includes(line)) throw new Error(`${SCHEMA_FILE} has no line for config`)
  return next
}

/** Helm's expressions count to 1,000 at most; of a longer repetition the count is said by the length. */
function forGo(_: string, of: unknown): unknown {
  if (typeof of !== 'object' || of === null || !('pattern' in of)) return of
  const [, first = '', repeated, min, max] =
    /^\^(\\?[^[\\])?(\[[^\]]*\])\{(\d+),(\d{4,})\}\$$/.exec(String(of.pattern)) ?? []
  if (repeated === undefined) return of
  const before = first === '' ? 0 : 1
  return {
    ...of,
    pattern: `^${first}${repeated}*$`,
    minLength: Number(min) + before,
    maxLength: Number(max) + before,
  }
}

export function writeChartSettings(): void {
  writeFileSync(TABLE_FILE, tableText())
  writeFileSync(SCHEMA_FILE, schemaText(readFileSync(SCHEMA_FILE, 'utf8')))
}

if (import.meta.main) writeChartSettings()
