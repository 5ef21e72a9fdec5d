import { expect, test } from 'vitest'
import { canonicalJson } from '../../src/core/formats/canonical-json.ts'
import { compileSelection } from '../../src/core/formats/json-pointer.ts'
import { canonicalQuery } from '../../src/core/formats/query.ts'
import {
  compileRules,
  DEFAULT_RULES,
  fingerprint,
  type IdentifiedBy,
  type RequestHead,
} from '../../src/core/request/fingerprint.ts'
import { type KeyOptions, parseIdempotencyKey } from '../../src/core/request/idempotency-key.ts'
import { type Identity, recordKey } from '../../src/core/request/identity.ts'
import type { FingerprintPolicy } from '../../src/core/routes/route.ts'
import { HEAD, hashOf, headOf } from '../support/requests.ts'
import { vectorsOf } from '../support/vectors.ts'

type KeyInput = { lines: string[]; options: KeyOptions }

test.each(vectorsOf<KeyInput, object>('idempotency-key.json'))('key: $name', ({ input, expected }) => {
  expect(parseIdempotencyKey(input.lines, input.options)).toMatchObject(expected)
})

type JsonInput = { utf8?: string; hex?: string; include?: string[]; exclude?: string[] }
type JsonExpected = { canonical: string } | { raw: string }

test.each(vectorsOf<JsonInput, JsonExpected>('canonical-json.json'))('JSON: $name', ({ input, expected }) => {
  const bytes = input.hex === undefined ? Buffer.from(input.utf8!, 'utf8') : Buffer.from(input.hex, 'hex')
  const mode = input.include === undefined ? 'exclude' : 'include'
  const pointers = input[mode]
  const compiled = pointers && compileSelection(mode, pointers)
  if (compiled?.kind === 'invalid') throw new Error(compiled.detail)
  const result = canonicalJson(bytes, compiled?.selection)
  expect(result.kind === 'canonical' ? { canonical: result.text } : { raw: result.reason }).toEqual(expected)
})

test.each(vectorsOf<string | null, object>('query.json'))('query: $name', ({ input, expected }) => {
  expect(canonicalQuery(input ?? undefined)).toEqual(expected)
})

type RequestInput = {
  request: Omit<RequestHead, 'query'> & { query: string | null }
  bodyHex: string
  policy?: FingerprintPolicy
  by?: IdentifiedBy
}
type Printed = { hash: string; scheme: string; form: string }

test.each(vectorsOf<RequestInput, Printed>('fingerprint.json'))(
  'fingerprint: $name',
  async ({ input, expected }) => {
    const compiled = input.policy && compileRules(input.policy)
    if (compiled?.kind === 'invalid') throw new Error(compiled.detail)
    const head = { ...input.request, query: input.request.query ?? undefined }
    const result = await fingerprint(
      head,
      Buffer.from(input.bodyHex, 'hex'),
      compiled?.rules ?? DEFAULT_RULES,
      undefined,
      input.by,
    )
    if (result.kind !== 'fingerprint') throw new Error(result.kind)
    expect({ hash: result.hash, scheme: result.scheme, form: result.body.form }).toEqual(expected)
  },
)

type TypeInput = { first: string | null; second: string | null; bodyHex: string }

test.each(vectorsOf<TypeInput, { same: boolean }>('content-type.json'))(
  'content type: $name ($input.first, $input.second)',
  async ({ input, expected }) => {
    const body = Buffer.from(input.bodyHex, 'hex')
    const hash = (type: string | null) => hashOf(type === null ? HEAD : headOf(type), body)
    expect((await hash(input.first)) === (await hash(input.second))).toBe(expected.same)
  },
)

test.each(vectorsOf<Identity, object>('identity.json'))('identity: $name', ({ input, expected }) => {
  expect(recordKey(input)).toMatchObject(expected)
})
