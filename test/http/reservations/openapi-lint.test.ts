/** `/openapi.json` as others read it: by the official JSON Schema of its version, and by a linter. */
import { createConfig, lintFromString } from '@redocly/openapi-core'
import { Validator } from '@seriousme/openapi-schema-validator'
import { beforeAll, describe, expect, test } from 'vitest'
import { startReservationApi } from '../../support/reservation-api.ts'

/** Rules of the recommended set that do not fit, each with its reason. */
const RULES = {
  // Looks for a member that `not` forbids among those that `not` describes.
  'no-required-schema-properties-undefined': 'off',
  // A problem document has the members of its code besides those of every problem (RFC 9457, section 3.2).
  'no-invalid-media-type-examples': { severity: 'error', allowAdditionalProperties: true },
  'no-invalid-parameter-examples': 'error',
  'no-invalid-schema-examples': 'error',
} as const

describe.each([
  ['without a token', undefined],
  ['with a token', () => ['secret']],
])('the document of an API %s', (_case, apiTokens) => {
  let text = ''
  beforeAll(async () => {
    await using api = await startReservationApi({ options: { apiTokens } })
    text = await (
      await fetch(`${api.origin}/openapi.json`, { headers: { authorization: 'Bearer secret' } })
    ).text()
  })

  test('is an OpenAPI document by the official schema', async () => {
    const validator = new Validator()
    expect(await validator.validate(JSON.parse(text))).toEqual({ valid: true })
    expect(validator.version).toBe('3.1')
  })

  test('the schema refuses a document that is none: the check can fail', async () => {
    const broken = { ...JSON.parse(text), info: { title: 'no version' } }
    expect((await new Validator().validate(broken)).valid).toBe(false)
  })

  test('the linter finds nothing', async () => {
    expect(await findings(text)).toEqual(
      // The scheme is described for callers of both.
      apiTokens === undefined ? ['no-unused-components: Security scheme: "bearer" is never used.'] : [],
    )
  })

  test('the linter finds an operation whose answers were left out: the check can fail', async () => {
    const document = JSON.parse(text)
    document.paths['/v1/reservations'].post.responses = {}
    expect((await findings(JSON.stringify(document))).join()).toContain('operation-4xx-response')
  })
})

async function findings(source: string): Promise<string[]> {
  const config = await createConfig({ extends: ['recommended'], rules: RULES })
  const problems = await lintFromString({ source, absoluteRef: '/openapi.json', config })
  return problems.map(({ ruleId, message }) => `${ruleId}: ${message}`)
}
