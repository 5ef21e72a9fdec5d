import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { CODINGS_MAX, DECODED_BYTES_MAX } from '../../src/core/formats/content-coding.ts'
import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../../src/core/formats/json.ts'
import { POINTERS_MAX } from '../../src/core/formats/json-pointer.ts'
import { PART_HEAD_BYTES_MAX, PARTS_MAX } from '../../src/core/formats/multipart.ts'
import { QUERY_PARAMETERS_MAX } from '../../src/core/formats/query.ts'
import { FIELD_LENGTH_MAX } from '../../src/core/formats/structured-field.ts'
import { FORM_PAIRS_MAX } from '../../src/core/formats/urlencoded-form.ts'
import { SHOWN_BODY_BYTES_MAX } from '../../src/core/request/explain.ts'
import { BODY_BYTES_MAX } from '../../src/core/request/fingerprint.ts'
import { KEY_BYTES_MAX, KEY_OF_PARTS_BYTES_MAX } from '../../src/core/request/idempotency-key.ts'
import { SCOPE_PART_BYTES_MAX } from '../../src/core/request/identity.ts'

const limits = {
  BODY_BYTES_MAX,
  DECODED_BYTES_MAX,
  CODINGS_MAX,
  JSON_DEPTH_MAX,
  JSON_VALUES_MAX,
  POINTERS_MAX,
  FORM_PAIRS_MAX,
  QUERY_PARAMETERS_MAX,
  PARTS_MAX,
  PART_HEAD_BYTES_MAX,
  FIELD_LENGTH_MAX,
  KEY_BYTES_MAX,
  KEY_OF_PARTS_BYTES_MAX,
  SCOPE_PART_BYTES_MAX,
  SHOWN_BODY_BYTES_MAX,
}
const UNITS: Record<string, number> = { MiB: 1024 * 1024, KiB: 1024 }

test('docs/reference/fingerprint.md lists every limit with its number, and no other', () => {
  const page = readFileSync(new URL('../../docs/reference/fingerprint.md', import.meta.url), 'utf8')
  const rows = page.matchAll(/^\| ([\d,]+) (\w+)[^|]*\| `([A-Z_]+)`/gm)
  const documented = [...rows].map(([, digits, unit, name]) => [
    name,
    Number(digits!.replaceAll(',', '')) * (UNITS[unit!] ?? 1),
  ])
  expect(Object.fromEntries(documented)).toEqual(limits)
})
