/**
 * The table of a route's fields in the YAML file: form, default, one sentence.
 *
 * Reading a route, its part of docs/reference/configuration.md and the JSON Schema of the file come from it.
 */

import { DRIFT_FACTOR } from '../core/clock.ts'
import { POINTER_EXPECTED, POINTERS_MAX, parsePointer } from '../core/formats/json-pointer.ts'
import { type PathPattern, parsePathPattern } from '../core/routes/path-pattern.ts'
import type { BodySelection, Disposition, HeaderPredicate, KeyPart } from '../core/routes/route.ts'
import { RETRY_COUNT_MAX } from './builtin-policy.ts'
import {
  choice,
  duration,
  fraction,
  fractionSchema,
  headerName,
  integer,
  label,
  onOff,
  patterned,
} from './parse.ts'
import { PRINCIPAL } from './principal.ts'
import { rowOf, SETTING_KEYS, SETTINGS } from './settings.ts'
import { entriesOf, type Given, listOf, mapped, mapping, oneOf, type Shape, scalar } from './shape.ts'
import { refused, type ValueKind, value } from './value.ts'

export const MOST_ROUTES = 1_000
const MOST_ENTRIES = 100

/** Up to half of a lease. */
const DRIFT_FACTOR_MAX = 0.5

function driftFactor(): ValueKind<number> {
  const share = fraction()
  return {
    ...share,
    accepts: `a number from ${DRIFT_FACTOR} to ${DRIFT_FACTOR_MAX}, such as 0.02`,
    schema: fractionSchema({ min: DRIFT_FACTOR, max: DRIFT_FACTOR_MAX }),
    parse: (text, readFile) => {
      const parsed = share.parse(text, readFile)
      if (parsed.kind === 'refused') return parsed
      return DRIFT_FACTOR <= parsed.value && parsed.value <= DRIFT_FACTOR_MAX ? parsed : refused()
    },
  }
}

const headers = scalar(headerName())
const ignored = scalar(
  patterned(
    'the name of a header, or cookie: and the name of a cookie',
    /^([!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}|cookie:[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128})$/,
    (text) => (text.startsWith('cookie:') ? text : text.toLowerCase()),
  ),
)
const method = scalar(patterned('a method in upper case', /^[A-Z]{1,20}$/))
const host = scalar(
  patterned(
    'a host name without port, or *. and one',
    /^(\*\.)?[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$|^\[[0-9a-fA-F:.]+\]$/,
    (text) => text.toLowerCase(),
  ),
)
const fieldValue = scalar(patterned('visible ASCII', /^[\x20-\x7e]{1,1024}$/))
const parameter = scalar(patterned('the name of a parameter of the path', /^[A-Za-z_][A-Za-z0-9_]*$/))
const pointers = listOf(scalar(jsonPointer()), { max: POINTERS_MAX })
/** Of a body: {@link bodySelection} refuses no pointer at all, and the whole document, in sentences of their own. */
const selection: typeof pointers = {
  ...pointers,
  schema: {
    ...pointers.schema,
    items: { ...jsonPointer().schema, minLength: 1 },
    minItems: 1,
  },
}

/** `route-file.ts` says why. */
function notTogether<T>(shape: Shape<T>, names: readonly [string, string]): Shape<T> {
  const both = { type: 'object', properties: { [names[0]]: {}, [names[1]]: {} }, required: names }
  const { not, ...schema } = shape.schema as { readonly not?: object }
  return { ...shape, schema: { ...schema, not: not === undefined ? both : { anyOf: [not, both] } } }
}

function jsonPointer(): ValueKind<string> {
  return {
    accepts: 'a JSON Pointer (RFC 6901), such as /customer/id',
    parse: (text) => (parsePointer(text) === undefined ? refused(POINTER_EXPECTED) : value(text)),
    print: String,
    yaml: 'text',
    schema: { type: 'string', pattern: '^(/([^~]|~[01])*)?$' },
  }
}

function pathPattern(): ValueKind<PathPattern> {
  return {
    accepts: 'a path such as /payments, /payments/{id} or /files/{rest*}',
    parse: (text) => {
      const parsed = parsePathPattern(text)
      return parsed.kind === 'pattern' ? value(parsed.pattern) : refused(parsed.reason)
    },
    print: (pattern) => pattern.text,
    yaml: 'text',
    schema: { type: 'string', pattern: '^/' },
  }
}

const headerPredicates: Shape<readonly HeaderPredicate[]> = mapped(
  entriesOf(
    { accepts: 'header names', pattern: /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,128}$/ },
    oneOf(['present', 'absent'], { equals: fieldValue, prefix: fieldValue }),
  ),
  (entries) =>
    entries.map(([given, test]) => {
      const name = given.toLowerCase()
      return typeof test === 'string' ? { kind: test, name } : { kind: test.kind, name, value: test.value }
    }),
)

const keyPart: Shape<KeyPart> = mapped(
  oneOf([], { header: headers, query: fieldValue, body: scalar(jsonPointer()), path: parameter }),
  (part): KeyPart => {
    switch (part.kind) {
      case 'header':
        return { in: 'header', name: part.value }
      case 'query':
        return { in: 'query', name: part.value }
      case 'body':
        return { in: 'body', pointer: part.value }
      case 'path':
        return { in: 'path', parameter: part.value }
    }
  },
)
const keyParts = listOf(keyPart, { max: 10, min: 1 })

const store: Shape<Readonly<Record<string, Disposition>>> = mapped(
  entriesOf(
    { accepts: 'statuses such as 404 or 5xx', pattern: /^[2-5](xx|[0-9]{2})$/ },
    scalar(choice('store', 'release', 'hold')),
  ),
  (entries) => Object.fromEntries(entries),
)

export function bodySelection(given: {
  readonly include?: readonly string[]
  readonly exclude?: readonly string[]
}): BodySelection {
  if (given.include !== undefined) return { kind: 'include', pointers: given.include }
  return given.exclude === undefined ? { kind: 'all' } : { kind: 'exclude', pointers: given.exclude }
}

type Field<S> = { readonly shape: S; readonly default: string; readonly summary: string }

function field<T>(shape: Shape<T>, fallback: string, summary: string): Field<Shape<T>> {
  return {
    shape: { ...shape, schema: { ...shape.schema, description: summary } },
    default: fallback,
    summary,
  }
}

/** The same limits and notation as the setting that is its default. */
function like<T>(
  setting: { readonly env: string; readonly kind: ValueKind<T> },
  summary: string,
): Field<Shape<T>> {
  return field(scalar(setting.kind), setting.env, summary)
}

const REQUIRED = 'required'

export const ROUTE_FIELDS = {
  name: field(scalar(label()), REQUIRED, 'Name in logs and metrics; each route has its own.'),
  match: field(
    mapping({
      methods: listOf(method, { max: 20, min: 1 }),
      hosts: listOf(host, { max: MOST_ENTRIES, min: 1 }),
      paths: listOf(scalar(pathPattern()), { max: MOST_ENTRIES, min: 1 }),
      headers: headerPredicates,
      body: scalar(choice('command')),
    }),
    REQUIRED,
    'Which requests: all of `methods`, `hosts` (without a port; `*.shop.example` is every name below), `paths`, `headers` that are given; each header is `present`, `absent`, `{equals: …}` or `{prefix: …}`; `body: command` is JSON or a form of at most `bodyLimit`.',
  ),
  mode: field(
    scalar(choice('header', 'content', 'both', 'bypass', 'observe')),
    REQUIRED,
    '`header`: the client’s key; `content`: the fingerprint; `both`: the key, and the same content under another key is noticed; `bypass`: untouched; `observe`: untouched, and what `header` would have done with it is counted, or `content` where it has no key.',
  ),
  required: field(
    scalar(onOff()),
    'off',
    'Refuse a request without a key with 400, instead of passing it through.',
  ),
  key: field(
    notTogether(
      mapping({
        headers: listOf(headers, { max: 10, min: 1 }),
        parts: keyParts,
        strict: scalar(onOff()),
        minLength: scalar(integer({ min: 1, max: 255 })),
        format: scalar(choice('any', 'uuid')),
      }),
      ['headers', 'parts'],
    ),
    'headers: [idempotency-key]',
    'Where the key is: in the first of `headers`, or in all of `parts` together (`{header: …}`, `{query: …}`, `{body: /pointer}`, `{path: parameter}`); `strict` takes structured-field strings only, `format: uuid` UUIDs only, `minLength` no shorter key.',
  ),
  derivedKey: field(
    scalar(onOff()),
    'off',
    'The application gets an `Idempotency-Key: fp-…` that is the same for every attempt, where the client’s own is not the key. For one that has no keys of its own: `Fencepost-Key` comes in any case.',
  ),
  fingerprint: field(
    notTogether(
      notTogether(
        mapping({
          headers: listOf(headers, { max: MOST_ENTRIES }),
          ignore: listOf(ignored, { max: MOST_ENTRIES }),
          include: selection,
          exclude: selection,
        }),
        ['include', 'exclude'],
      ),
      ['headers', 'ignore'],
    ),
    'the whole body, and where it is the key every header but [those that change between tries](fingerprint.md)',
    'What content means: only these `headers`, or all but those that change and `ignore` (names, and `cookie:name`); of a JSON body only `include` or all but `exclude` (JSON Pointers with `*`). With a key: `headers` besides the rest.',
  ),
  principal: field(
    PRINCIPAL,
    'authorization',
    'Whose request it is: `authorization`, `{header: …}`, `{jwt: {…}}` with a bearer token that is verified here, or `{jwt: claim}` with one that a peer in `trust.peers` has verified.',
  ),
  lease: like(SETTINGS.leaseMs, 'Processing lease.'),
  retention: field(
    scalar(SETTINGS.retentionMs.kind),
    '`FENCEPOST_RETENTION`, in mode `content` the lease',
    'How long a completed record answers duplicates.',
  ),
  budget: like(SETTINGS.claimBudgetMs, 'Time for all rounds of one claim together.'),
  retryCount: field(
    scalar(integer({ min: 0, max: RETRY_COUNT_MAX })),
    String(RETRY_COUNT_MAX),
    'Rounds of one claim after its first, while nobody wins the race for a key or too few nodes answer; the default leaves it to the budget.',
  ),
  retryDelay: field(
    scalar(duration({ minMs: 1, maxMs: 10_000 })),
    '4ms',
    'Longest first pause between two rounds; it doubles with each round, up to ten times as long.',
  ),
  retryJitter: field(
    scalar(fraction()),
    '1',
    'Share of each pause that is random: 1 is any time up to the pause, 0 always the whole pause.',
  ),
  driftFactor: field(
    scalar(driftFactor()),
    String(DRIFT_FACTOR),
    'Share of the lease by which its holder stops sooner than the nodes, because clocks may drift apart by it; never less than what the quarantine of nodes assumes.',
  ),
  onContention: field(
    scalar(choice('conflict', 'wait', 'coordinate')),
    'conflict',
    '`conflict`: a concurrent duplicate is answered 409; `wait`: it waits for the first and tries for itself; `coordinate`: it waits for its turn among those of all sidecars, as do requests that wait for an entity.',
  ),
  wait: field(
    mapping({ max: scalar(SETTINGS.waitMaxMs.kind), waiters: scalar(SETTINGS.maxWaiters.kind) }),
    'max: `FENCEPOST_WAIT_MAX`, waiters: `FENCEPOST_MAX_WAITERS`',
    'How long a duplicate waits and how many may.',
  ),
  onQuorumLoss: like(
    SETTINGS.onQuorumLoss,
    'While fewer than a majority of the nodes answer: `fail-closed` (503), `fail-open` (passed on unprotected) or `local` (this process alone protects).',
  ),
  takeover: field(
    scalar(choice('reexecute', 'indeterminate')),
    'reexecute',
    'When a lease expired without an outcome: `reexecute` (with a higher token), or `indeterminate` (409 until somebody decides).',
  ),
  duplicateContent: field(
    scalar(choice('conflict', 'execute')),
    'conflict',
    'In mode `both`, the same content under another key: `conflict` (409) or `execute`.',
  ),
  bodyLimit: like(SETTINGS.bodyLimitBytes, 'Largest request body that is buffered.'),
  storedResponseLimit: like(SETTINGS.storedResponseLimitBytes, 'Largest response body that is stored.'),
  store: field(
    store,
    '2xx, 3xx, 400, 402, 409, 410, 422: store; 4xx, 5xx: release; 206, 408, 499, 502, 504, 520, 522, 524: hold',
    'Per status or class: `store` the answer, `release` the key, or `hold` the lock; `5xx: store` as Stripe does. A status comes before all else, what the answer asks for (`Retry-After`, a challenge) before a class. A class releases neither 408 nor 499, nor what a gateway says (502, 504, 520, 522, 524).',
  ),
  storedHeaders: field(
    listOf(headers, { max: MOST_ENTRIES }),
    'none',
    'Response headers that are stored besides those that always are; one that is named like a credential only where it is named here.',
  ),
  omittedHeaders: field(
    listOf(headers, { max: MOST_ENTRIES }),
    'none',
    'Response headers that are not stored; a replay names them in `Idempotency-Omitted`.',
  ),
  bodyStorage: field(
    scalar(choice('full', 'none')),
    'full',
    '`none`: a tombstone instead of the response body is stored.',
  ),
  redact: field(pointers, 'none', 'JSON Pointers into a JSON response, whose values are not stored.'),
  entities: field(
    listOf(keyPart, { max: 10 }),
    'none',
    'Requests that name the same entity are carried out one after the other; written like the parts of a key.',
  ),
  entityWait: like(SETTINGS.waitMaxMs, 'How long a request waits for its entities.'),
  upstreamTimeout: like(
    SETTINGS.upstreamTimeoutMs,
    'How long the application may take for its whole answer; in mode `bypass`, for the head of it.',
  ),
  totalHold: like(SETTINGS.totalHoldMs, 'How long one request may hold its record, renewals included.'),
} satisfies Record<string, Field<Shape<unknown>>>

type RouteFieldName = keyof typeof ROUTE_FIELDS

type RouteShapes = { readonly [K in RouteFieldName]: (typeof ROUTE_FIELDS)[K]['shape'] }

export type GivenRoute = Given<RouteShapes>

export const ROUTE_SHAPE = mapping(
  Object.fromEntries(
    Object.entries(ROUTE_FIELDS).map(([name, each]) => [name, each.shape]),
  ) as unknown as RouteShapes,
  ['name', 'match', 'mode'],
)

type Schema = Readonly<Record<string, unknown>>

/** Draft 2020-12; docs/config.schema.json is a copy of it. */
export function fileSchema(): Schema {
  const topLevel: Record<string, Schema> = {}
  const groups: Record<string, Record<string, Schema>> = {}
  for (const key of SETTING_KEYS) {
    const row = rowOf(key)
    const fallback = row.default.kind === 'text' ? { default: row.default.text } : {}
    const schema = { description: `${row.summary} (${row.env})`, ...fallback, ...row.kind.schema }
    const [group, name] = row.path.split('.') as [string, string?]
    if (name === undefined) {
      topLevel[group] = schema
      continue
    }
    groups[group] ??= {}
    groups[group][name] = schema
  }
  for (const [group, properties] of Object.entries(groups))
    topLevel[group] = { type: ['object', 'null'], properties, additionalProperties: false }
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'fencepost configuration file',
    type: ['object', 'null'],
    properties: {
      ...topLevel,
      routes: {
        description: 'Tried in order; the first match decides.',
        type: 'array',
        items: ROUTE_SHAPE.schema,
        maxItems: MOST_ROUTES,
      },
    },
    additionalProperties: false,
  }
}
