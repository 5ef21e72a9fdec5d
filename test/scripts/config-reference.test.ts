import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { EXAMPLE, referenceText, schemaText } from '../../scripts/config-reference.ts'
import { describeErrors } from '../../src/config/errors.ts'
import { loadConfig } from '../../src/config/load.ts'
import { fileSchema, ROUTE_FIELDS } from '../../src/config/route-fields.ts'
import { rowOf, SETTING_KEYS } from '../../src/config/settings.ts'

const docs = join(import.meta.dirname, '..', '..', 'docs')

test.each([['config.schema.json', schemaText()]])(
  'docs/%s is what the tables say; else run `npm run generate -- settings`',
  (file, text) => {
    expect(readFileSync(join(docs, file), 'utf8')).toBe(text)
  },
)

test('the reference names every setting and no other', () => {
  const documented = [...referenceText().matchAll(/^\| `(FENCEPOST_[A-Z_]+)` \| `/gm)].map(([, name]) => name)
  expect(documented).toEqual(SETTING_KEYS.map((key) => rowOf(key).env))
})

test('every setting has a sentence and the source of its default', () => {
  for (const key of SETTING_KEYS) {
    const { env, summary, source } = rowOf(key)
    expect([env, summary]).toEqual([env, expect.stringMatching(/^[A-Z].*\.$/)])
    expect([env, source]).toEqual([env, expect.stringMatching(/\.$/)])
  }
})

/** Bug: `key.format`, `duplicateContent: execute` and `takeover: indeterminate` were in the schema alone. */
test.each(Object.entries(ROUTE_FIELDS))('%s: what can be written is named in its row', (_name, field) => {
  const {
    enum: values = [],
    properties = {},
    type,
  } = field.shape.schema as {
    enum?: unknown[]
    properties?: object
    type?: string
  }
  const writable = type === 'string' ? values.map(String) : Object.keys(properties)
  const named = `${field.default} ${field.summary}`.split(/[^\w-]+/)
  expect(writable.filter((each) => !named.includes(each))).toEqual([])
})

describe('the JSON Schema', () => {
  const validate = new Ajv2020({ strict: true, allowUnionTypes: true, allErrors: true }).compile(fileSchema())

  /** What fencepost itself says of the file. */
  const loads = (content: string) => {
    const env = {
      FENCEPOST_CONFIG: '/c.yaml',
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
    }
    const loaded = loadConfig(env, () => content)
    return loaded.kind === 'ok' ? 'accepted' : describeErrors(loaded.errors)
  }

  test.each([
    EXAMPLE,
    '',
    'record:\n',
    'record: { lease: 20s, renewFraction: 0.25 }\nlimits: { inFlight: 10 }\nclock: { enforce: true }',
    'record: { renewFraction: 1/4 }',
    'redis: { nodes: [redis://a, redis://b, redis://c] }',
    'redis: { nodes: embedded }',
    'routes: []',
    'routes: [{ name: a, match: {}, mode: header, driftFactor: 0.01 }]',
    'routes: [{ name: a, match: {}, mode: header, driftFactor: 1/2 }]',
    'routes: [{ name: a, match: {}, mode: header, fingerprint: { include: [/a], headers: [] } }]',
    'redis: { nodes: { a: [redis://a, redis://b, redis://c], b: [redis://d, redis://e, redis://f] } }',
    'redis: { nodes: [redis://a, redis://b, redis://c], nodeNames: "a, b, c" }',
    'listen: { proxy: "[::1]:8080", api: unix:/run/f.sock, gateway: "off" }',
    'trust: { peers: "10.0.0.0/8, ::1", pageOrigins: [capacitor://localhost] }',
    'trust: { peers: none, pageOrigins: none }',
    'tls: { listeners: "proxy, api" }\ntrust: { peers: [any] }',
    'upstream: { address: http://a:1/ }',
  ])('accepts what fencepost accepts: %j', (content) => {
    expect(loads(content)).toBe('accepted')
    expect(validate(parse(content)), JSON.stringify(validate.errors)).toBe(true)
  })

  test.each([
    'recrod: { lease: 20s }',
    'record: { leese: 20s }',
    'record: { lease: 20 }',
    'record: { onQuorumLoss: open }',
    'limits: { inFlight: many }',
    'limits: { body: 1MB }',
    'scope: { apiVersion: 1.10 }',
    'redis: { nodes: [redis://a, redis://b] }',
    // Bug: an editor and Helm found nothing wrong with any of these, and the sidecar did not start.
    'routes: [{ name: a, match: {}, mode: header, driftFactor: 0.005 }]',
    'routes: [{ name: a, match: {}, mode: header, driftFactor: 0.6 }]',
    'routes: [{ name: a, match: {}, mode: header, key: { headers: [a], parts: [{ header: b }] } }]',
    'routes: [{ name: a, match: {}, mode: header, fingerprint: { include: [/a], exclude: [/b] } }]',
    'routes: [{ name: a, match: {}, mode: header, fingerprint: { include: [] } }]',
    'routes: [{ name: a, match: {}, mode: header, fingerprint: { exclude: [""] } }]',
    'redis: { nodes: [redis://a, redis://b, redis://c, redis://d] }',
    'redis: { nodeNames: [a b, c, d] }',
    'redis: { nodeNames: "a,,b" }',
    'listen: { proxy: 8080x }',
    'listen: { api: "on" }',
    'trust: { peers: nobody }',
    'trust: { peers: [10.0.0.0/8, localhost] }',
    'trust: { pageOrigins: shop.example }',
    'tls: { listeners: "proxy, all" }',
    'upstream: { address: http://a/path }',
    'upstream: { address: http://user:secret@a }',
    'routes: { a: 1 }',
    'routes: [{ name: a, match: {} }]',
    'routes: [{ name: a, match: { methods: [post] }, mode: header }]',
    'routes: [{ name: a, match: {}, mode: hedder }]',
    'routes: [{ name: a, match: {}, mode: header, store: { 6xx: store } }]',
    'routes: [{ name: a, match: {}, mode: header, key: { parts: [{ quer: x }] } }]',
  ])('refuses what fencepost refuses: %j', (content) => {
    expect(loads(content)).not.toBe('accepted')
    expect(validate(parse(content))).toBe(false)
  })
})
