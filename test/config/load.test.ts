import { describe, expect, test } from 'vitest'
import { describeErrors } from '../../src/config/errors.ts'
import { type Config, type Environment, loadConfig } from '../../src/config/load.ts'
import { rowOf, SETTING_KEYS } from '../../src/config/settings.ts'
import { protects } from '../../src/core/routes/route.ts'
import { oneCertificate } from '../support/certificates.ts'

const enough = { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000' }

function load(env: Environment, files: Record<string, string> = {}) {
  return loadConfig(env, (path) => {
    const content = files[path]
    if (content === undefined) throw new Error(`ENOENT: no such file or directory, open '${path}'`)
    return content
  })
}

function accepted(env: Environment, files?: Record<string, string>): Config {
  const loaded = load({ ...enough, ...env }, files)
  if (loaded.kind === 'invalid') throw new Error(describeErrors(loaded.errors))
  return loaded.config
}

function errorsOf(env: Environment, files?: Record<string, string>): string[] {
  const loaded = load({ ...enough, ...env }, files)
  if (loaded.kind === 'ok') return []
  return describeErrors(loaded.errors)
    .split('\n')
    .slice(1)
    .map((line) => line.trim())
}

const inFile = (content: string) => [{ FENCEPOST_CONFIG: '/c.yaml' }, { '/c.yaml': content }] as const

describe('defaults', () => {
  test('the defaults that other programs rely on', () => {
    expect(accepted({})).toMatchObject({
      redisNodes: { kind: 'embedded' },
      upstream: { kind: 'http', origin: 'http://127.0.0.1:3000' },
      proxyListen: { kind: 'tcp', host: '0.0.0.0', port: 8080 },
      apiListen: { kind: 'tcp', host: '127.0.0.1', port: 8081 },
      adminListen: { kind: 'tcp', host: '0.0.0.0', port: 9090 },
      env: 'default',
      apiVersion: 'v1',
      tenant: 'default',
      tenantHeader: 'x-tenant-id',
      versionHeader: 'x-api-version',
      clientHeader: 'x-client-id',
      leaseMs: 30_000,
      retentionMs: 86_400_000,
      onQuorumLoss: 'fail-closed',
    })
  })

  test('every default is accepted by its own setting', () => {
    for (const key of SETTING_KEYS) {
      const row = rowOf(key)
      if (row.default.kind !== 'text') continue
      expect([row.env, row.kind.parse(row.default.text, () => '')]).toMatchObject([
        row.env,
        { kind: 'value' },
      ])
    }
  })

  test('the built-in policy: POST and PATCH by key, else commands by content for a lease; all else is no route', () => {
    const { routes } = accepted({})
    expect(routes.map(({ mode, match }) => ({ mode, match }))).toEqual([
      {
        mode: 'header',
        match: { methods: ['POST', 'PATCH'], headers: [{ kind: 'present', name: 'idempotency-key' }] },
      },
      { mode: 'content', match: { methods: ['POST', 'PATCH'], body: 'command' } },
    ])
    expect(routes.filter(protects).map(({ retentionMs }) => retentionMs)).toEqual([86_400_000, 30_000])
  })

  test('no two settings share a name or a place', () => {
    const names = SETTING_KEYS.map((key) => rowOf(key).env)
    const paths = SETTING_KEYS.map((key) => rowOf(key).path)
    expect(new Set(names).size).toBe(names.length)
    expect(new Set(paths).size).toBe(paths.length)
  })
})

describe('where a value comes from', () => {
  test('the environment wins over the file, the file over the default', () => {
    const [env, files] = inFile('record:\n  lease: 20s\n  retention: 48h\n')
    const loaded = load({ ...enough, ...env, FENCEPOST_LEASE: '10s' }, files)
    expect(loaded).toMatchObject({
      kind: 'ok',
      config: { leaseMs: 10_000, retentionMs: 172_800_000, claimBudgetMs: 100 },
      origins: { leaseMs: 'environment', retentionMs: 'file', claimBudgetMs: 'default', routes: 'default' },
    })
  })

  test('a value of the file is checked even where the environment wins', () => {
    const [env, files] = inFile('record: { lease: 20 }')
    expect(errorsOf({ ...env, FENCEPOST_LEASE: '10s' }, files)).toEqual([
      expect.stringContaining('record.lease: "20" is not accepted (it has no unit)'),
    ])
  })

  test('every setting can be given in the file', () => {
    const files: Record<string, string> = { '/file': oneCertificate().cert }
    const groups: Record<string, Record<string, string>> = {}
    for (const key of SETTING_KEYS) {
      const { path, default: fallback } = rowOf(key)
      const [group = '', name = ''] = path.split('.')
      if (fallback.kind !== 'text' || !path.includes('.')) continue
      groups[group] = { ...groups[group], [name]: fallback.text }
    }
    // JSON is YAML.
    files['/c.json'] = JSON.stringify({
      ...groups,
      redis: { ...groups.redis, nodes: ['redis://a', 'redis://b', 'redis://c'], caFile: '/file' },
      upstream: { ...groups.upstream, address: 'unix:/app.sock' },
      instance: 'pod-1',
    })
    const loaded = load({ FENCEPOST_CONFIG: '/c.json' }, files)
    expect(loaded).toMatchObject({
      kind: 'ok',
      origins: { redisNodes: 'file', redisCa: 'file', instance: 'file' },
    })
  })

  test('switches of the file are true and false, or on and off', () => {
    for (const [text, on] of [
      ['true', true],
      ['false', false],
      ['on', true],
      ['off', false],
    ] as const)
      expect(accepted(...inFile(`clock: { enforce: ${text} }`)).clockEnforce).toBe(on)
    expect(errorsOf(...inFile('clock: { enforce: yes }'))).toHaveLength(1)
  })

  test('groups of nodes are a mapping in the file, and what the environment writes in one line', () => {
    const names = ['a', 'b'].map(
      (name) => `  ${name}: [redis://${name}0, redis://${name}1, redis://${name}2]`,
    )
    const fromFile = (content: string) => {
      const [env, files] = inFile(content)
      return [{ ...env, FENCEPOST_REDIS_NODES: undefined }, files] as const
    }
    const { redisNodes } = accepted(...fromFile(`redis:\n nodes:\n${names.join('\n')}\n`))
    const inOneLine = 'a=redis://a0,redis://a1,redis://a2;b=redis://b0,redis://b1,redis://b2'
    expect(accepted({ FENCEPOST_REDIS_NODES: inOneLine }).redisNodes).toEqual(redisNodes)
    expect(redisNodes).toMatchObject({ groups: [{ name: 'a' }, { name: 'b' }] })
    expect(errorsOf(...fromFile('redis: { nodes: { a: redis://x } }'))[0]).toContain('nor a mapping of names')
  })
})

describe('what is refused', () => {
  test('every error at once, each with its name, the value and what is accepted', () => {
    const errors = errorsOf({
      FENCEPOST_REDIS_NODES: 'redis://:secret@a,redis://b',
      FENCEPOST_UPSTREAM: 'localhost',
      FENCEPOST_LEASE: '30',
      FENCEPOST_RETENTION: '1 day',
      FENCEPOST_ON_QUORUM_LOSS: 'open',
      FENCEPOST_MAX_IN_FLIGHT: '10abc',
      FENCEPOST_CLOCK_ENFORCE: 'yes',
      FENCEPOST_BODY_LIMIT: '',
      FENCEPOST_API_TOKEN_FILE: '/none',
      FENCEPOST_LEASES: '3s',
    })
    expect(errors).toEqual([
      'FENCEPOST_LEASES: no such setting; did you mean FENCEPOST_LEASE?',
      expect.stringMatching(
        /^FENCEPOST_REDIS_NODES: "redis:\/\/\*\*\*@a,redis:\/\/b" is not accepted \(2 given\); accepted is 3 to 9 /,
      ),
      expect.stringMatching(
        /^FENCEPOST_UPSTREAM: "localhost" is not accepted; accepted is http:\/\/host:port or /,
      ),
      expect.stringMatching(
        /^FENCEPOST_LEASE: "30" is not accepted \(it has no unit\); accepted is a duration .* from 100ms to 1h$/,
      ),
      expect.stringMatching(/^FENCEPOST_RETENTION: "1 day" is not accepted; accepted is a duration/),
      'FENCEPOST_ON_QUORUM_LOSS: "open" is not accepted; accepted is fail-closed, fail-open or local',
      'FENCEPOST_CLOCK_ENFORCE: "yes" is not accepted; accepted is on or off',
      'FENCEPOST_MAX_IN_FLIGHT: "10abc" is not accepted; accepted is a whole number from 1 to 1000000',
      expect.stringMatching(/^FENCEPOST_BODY_LIMIT: "" is not accepted; accepted is a size/),
      expect.stringMatching(
        /^FENCEPOST_API_TOKEN_FILE: "\/none" is not accepted \(ENOENT.*\); accepted is the path/,
      ),
    ])
    expect(errors.join()).not.toContain('secret')
  })

  test('an empty value is a value: it is refused and no default takes its place', () => {
    for (const key of SETTING_KEYS) expect([key, errorsOf({ [rowOf(key).env]: '' }).length]).toEqual([key, 1])
  })

  test('nodes are required, and the application while the proxy listens', () => {
    expect(errorsOf({ FENCEPOST_REDIS_NODES: undefined, FENCEPOST_UPSTREAM: undefined })).toEqual([
      expect.stringMatching(/^FENCEPOST_REDIS_NODES: required, but not set; accepted is /),
      expect.stringMatching(
        /^FENCEPOST_UPSTREAM: required while the proxy listens, but not set; accepted is /,
      ),
    ])
    expect(
      accepted({ FENCEPOST_UPSTREAM: undefined, FENCEPOST_PROXY_LISTEN: 'off' }).upstream,
    ).toBeUndefined()
  })

  test('the reservation API needs a token as soon as others than this host can reach it', () => {
    for (const local of ['127.0.0.1:0', '[::1]:0', 'localhost:0', 'unix:/api.sock', 'off'])
      expect([local, errorsOf({ FENCEPOST_API_LISTEN: local })]).toEqual([local, []])
    for (const open of ['0.0.0.0:0', '[::]:0', '10.0.0.1:0', 'localhost.example.com:0'])
      expect([open, errorsOf({ FENCEPOST_API_LISTEN: open })]).toEqual([
        open,
        [
          expect.stringMatching(
            /^FENCEPOST_API_TOKEN_FILE: required while the reservation API can be reached/,
          ),
        ],
      ])
    const token = { FENCEPOST_API_LISTEN: '0.0.0.0:0', FENCEPOST_API_TOKEN_FILE: '/token' }
    expect(accepted(token, { '/token': 't\n' }).apiToken?.content).toBe('t')
  })

  test.each([
    ['FENCEPOST_TENNANT', 'FENCEPOST_TENANT'],
    ['FENCEPOST_REDIS_NODE', 'FENCEPOST_REDIS_NODES'],
    ['FENCEPOST_Lease', 'FENCEPOST_LEASE'],
  ])('%s suggests %s', (given, nearest) => {
    expect(errorsOf({ [given]: 'x' })).toEqual([`${given}: no such setting; did you mean ${nearest}?`])
  })

  test('a name unlike any setting gets no suggestion', () => {
    expect(errorsOf({ FENCEPOST_ZZZZZZZZZZZZZZZZZZ: 'x' })).toEqual([
      'FENCEPOST_ZZZZZZZZZZZZZZZZZZ: no such setting',
    ])
  })

  test('variables that Kubernetes makes for Services, and those of the client library, are ignored', () => {
    const links = {
      FENCEPOST_SERVICE_HOST: '10.0.0.1',
      FENCEPOST_SERVICE_PORT: '8080',
      FENCEPOST_SERVICE_PORT_HTTP: '8080',
      FENCEPOST_PORT: 'tcp://10.0.0.1:8080',
      FENCEPOST_PORT_8080_TCP: 'tcp://10.0.0.1:8080',
      FENCEPOST_PORT_8080_TCP_PROTO: 'tcp',
      FENCEPOST_REDIS_0_PORT_6379_TCP_ADDR: '10.0.0.2',
      FENCEPOST_URL: 'http://127.0.0.1:8081',
    }
    expect(errorsOf(links)).toEqual([])
    expect(errorsOf({ FENCEPOST_PORT: '8080' })).toHaveLength(1)
  })
})

/**
 * Bug: with the proxy's own address as that of the application a GET came back to the proxy until it had 201 header lines and got 431, and a
 * payment waited for itself: 409 to every attempt.
 */
describe('an application whose address is one of fencepost itself', () => {
  test.each<[upstream: string, env: Readonly<Record<string, string>>]>([
    ['http://127.0.0.1:8080', {}],
    ['http://localhost:8080', {}],
    ['http://[::1]:8080', { FENCEPOST_PROXY_LISTEN: '[::]:8080' }],
    ['http://127.0.0.1', { FENCEPOST_PROXY_LISTEN: '0.0.0.0:80' }],
    ['https://127.0.0.1', { FENCEPOST_PROXY_LISTEN: '0.0.0.0:443' }],
    ['http://10.0.0.7:8080', { FENCEPOST_PROXY_LISTEN: '10.0.0.7:8080' }],
    ['http://127.0.0.1:8081', {}],
    ['http://127.0.0.1:9090', {}],
  ])('%s is refused with %j', (upstream, env) => {
    expect(errorsOf({ FENCEPOST_UPSTREAM: upstream, ...env })).toEqual([
      expect.stringMatching(
        /^FENCEPOST_UPSTREAM: address \(.*\) ≠ where fencepost itself listens \(.*, FENCEPOST_(PROXY|API|ADMIN)_LISTEN\) does not hold: /,
      ),
    ])
  })

  test.each<[upstream: string, env: Readonly<Record<string, string>>]>([
    ['http://127.0.0.1:3000', {}],
    // Of another machine, and of another address of this one.
    ['http://app:8080', {}],
    ['http://10.0.0.8:8080', { FENCEPOST_PROXY_LISTEN: '10.0.0.7:8080' }],
    ['http://127.0.0.2:8081', {}],
    ['http://127.0.0.1:8080', { FENCEPOST_PROXY_LISTEN: '[::1]:8080' }],
    ['http://[::1]:8080', {}],
    // A port that the system chooses.
    ['http://127.0.0.1:0', { FENCEPOST_PROXY_LISTEN: '127.0.0.1:0' }],
    ['unix:/run/app.sock', {}],
    // Nobody asks it.
    ['http://127.0.0.1:8081', { FENCEPOST_PROXY_LISTEN: 'off' }],
  ])('%s is none with %j', (upstream, env) => {
    expect(errorsOf({ FENCEPOST_UPSTREAM: upstream, ...env })).toEqual([])
  })
})

/** Bug: `config check` accepted two listeners on one address, and the start then failed with EADDRINUSE. */
describe('two listeners on one address', () => {
  const NEEDS_ITS_OWN = / does not hold: two listeners need two addresses$/

  test.each<[name: string, env: Readonly<Record<string, string>>]>([
    ['ADMIN', { FENCEPOST_PROXY_LISTEN: '127.0.0.1:9090' }],
    ['API', { FENCEPOST_API_LISTEN: 'localhost:8080' }],
    ['ADMIN', { FENCEPOST_PROXY_LISTEN: '127.0.0.1:9464', FENCEPOST_ADMIN_LISTEN: '0.0.0.0:9464' }],
    ['ADMIN', { FENCEPOST_PROXY_LISTEN: '10.0.0.7:9464', FENCEPOST_ADMIN_LISTEN: '0.0.0.0:9464' }],
    ['ADMIN', { FENCEPOST_PROXY_LISTEN: '0.0.0.0:9464', FENCEPOST_ADMIN_LISTEN: '[::]:9464' }],
    ['API', { FENCEPOST_PROXY_LISTEN: 'unix:/run/a.sock', FENCEPOST_API_LISTEN: 'unix:/run/a.sock' }],
  ])('the %s listener is refused with %j', (name, env) => {
    expect(errorsOf(env)).toEqual([expect.stringMatching(NEEDS_ITS_OWN)])
    expect(errorsOf(env)[0]).toMatch(new RegExp(`^FENCEPOST_${name}_LISTEN: address \\(`))
  })

  test.each<[Readonly<Record<string, string>>]>([
    [{ FENCEPOST_PROXY_LISTEN: '127.0.0.1:0', FENCEPOST_API_LISTEN: '127.0.0.1:0' }],
    [{ FENCEPOST_PROXY_LISTEN: '10.0.0.7:9000', FENCEPOST_ADMIN_LISTEN: '10.0.0.8:9000' }],
    [{ FENCEPOST_PROXY_LISTEN: '127.0.0.1:9000', FENCEPOST_ADMIN_LISTEN: '[::1]:9000' }],
    [{ FENCEPOST_PROXY_LISTEN: 'off', FENCEPOST_API_LISTEN: 'off' }],
    [{ FENCEPOST_PROXY_LISTEN: 'unix:/run/a.sock', FENCEPOST_API_LISTEN: 'unix:/run/b.sock' }],
    // A name may be any address, which is known when it is listened on.
    [{ FENCEPOST_PROXY_LISTEN: 'pod.example:9000', FENCEPOST_ADMIN_LISTEN: '10.0.0.8:9000' }],
  ])('%j has none', (env) => {
    expect(errorsOf(env)).toEqual([])
  })
})

describe('the file', () => {
  test.each<[content: string, errors: unknown[]]>([
    ['', []],
    ['# nothing\n', []],
    ['record:\n', []],
    [
      '- a',
      ['FENCEPOST_CONFIG: /c.yaml: its top level is not a mapping, such as `routes:` and below it the list'],
    ],
    ['a: [', [expect.stringMatching(/^FENCEPOST_CONFIG: \/c.yaml: it is not YAML: /)]],
    [
      'record: { lease: 3s }\nrecord: { lease: 4s }',
      [expect.stringMatching(/it is not YAML: Map keys must be unique at line \d+, column \d+$/)],
    ],
    ['a: &x 1\nb: *x', [expect.stringMatching(/^FENCEPOST_CONFIG: \/c.yaml: .*alias/i)]],
    // Bug: whatever stood behind the second --- was left out without a word, routes too.
    [
      '---\n# common\n---\nroutes: []\n',
      [
        'FENCEPOST_CONFIG: /c.yaml: it has more than one document, and only one is read: leave out the line --- between them',
      ],
    ],
    ['a: !!js/function "x"', [expect.stringContaining('it is not YAML: ')]],
    ['record: 3', ['record: it is not a mapping of settings']],
    ['recrod: { lease: 3s }', ['recrod: no such setting; did you mean record?']],
    ['tenant: a', ['tenant: no such setting; did you mean scope.tenant?']],
    ['record: { leese: 3s }', ['record.leese: no such setting; did you mean record.lease?']],
    ['__proto__: { lease: 3s }', ['__proto__: no such setting']],
    [
      'scope: { apiVersion: 1.10 }',
      [expect.stringContaining('scope.apiVersion: "1.1" is not accepted (it is a number; put it in quotes)')],
    ],
    ['limits: { inFlight: many }', [expect.stringContaining('limits.inFlight: "many" is not accepted')]],
    [
      'record: { lease: [3s] }',
      [expect.stringContaining('record.lease: "[\\"3s\\"]" is not accepted (it is not text)')],
    ],
    ['redis: { nodes: ["redis://:secret@a", "redis://b"] }', [expect.not.stringContaining('secret')]],
    ['redis: { nodes: { a: "redis://:secret@a" } }', [expect.not.stringContaining('secret')]],
  ])('%j', (content, errors) => {
    expect(errorsOf(...inFile(content))).toEqual(errors)
  })

  test('a file too large for a configuration is not parsed', () => {
    expect(errorsOf(...inFile(`#${'x'.repeat(2 ** 20)}`))).toEqual([
      'FENCEPOST_CONFIG: /c.yaml: it has 1048577 characters, at most 1048576 are read',
    ])
  })

  test('a missing file is an error, and the other errors are shown as well', () => {
    expect(errorsOf({ FENCEPOST_CONFIG: '/none.yaml', FENCEPOST_LEASE: 'x' })).toEqual([
      expect.stringMatching(/^FENCEPOST_CONFIG: \/none.yaml: it can't be read: ENOENT/),
      expect.stringMatching(/^FENCEPOST_LEASE: "x" is not accepted/),
    ])
  })
})

describe('relations', () => {
  test.each<[why: string, env: Environment, error: string]>([
    [
      'the deadline of a node against the lease',
      { FENCEPOST_LEASE: '1s' },
      'FENCEPOST_NODE_DEADLINE: node deadline (80ms) ≤ 5 % of the lease (50ms) does not hold: slow nodes would use up the lease',
    ],
    [
      'the deadline of a node against the budget of a claim',
      { FENCEPOST_NODE_DEADLINE: '200ms' },
      'FENCEPOST_NODE_DEADLINE: node deadline (200ms) ≤ claim budget (100ms) does not hold: one silent node would use up the whole budget',
    ],
    [
      'renewing early enough',
      { FENCEPOST_RENEW_FRACTION: '0.5' },
      'FENCEPOST_RENEW_FRACTION: renew fraction (1/2) ≤ a third of the validity (1/3) does not hold: a lease would not outlive two failed renewals',
    ],
    [
      'renewing no oftener than nodes can answer',
      { FENCEPOST_RENEW_FRACTION: '0.001' },
      'FENCEPOST_RENEW_FRACTION: node deadline (80ms) ≤ renew fraction of the lease (30ms) does not hold: a lease would be renewed again before all nodes had answered',
    ],
    [
      'the quarantine, counted with the longest lease that any record may have',
      { FENCEPOST_QUARANTINE: '60s' },
      'FENCEPOST_QUARANTINE: longest lease · 1.01 + 2ms + clock step (61602ms) ≤ quarantine (1m) does not hold: a node that forgot would vote before every lease that it forgot has ended',
    ],
    // Bug: it was accepted, and the start ended with a RangeError of Node.
    [
      'the time for a request against that for its head',
      { FENCEPOST_REQUEST_TIMEOUT: '3s' },
      'FENCEPOST_REQUEST_TIMEOUT: time for the head (10s) ≤ time for the whole request (3s) does not hold: the head is a part of it',
    ],
    [
      'the gate of readiness',
      { FENCEPOST_READINESS_READY_BELOW: '200ms' },
      'FENCEPOST_READINESS_READY_BELOW: ready below (200ms) ≤ unready above (150ms) does not hold: the pod would be ready and unready at once',
    ],
    [
      'the samples of readiness against what a pod without requests can claim by itself',
      { FENCEPOST_READINESS_WINDOW: '10s' },
      'FENCEPOST_READINESS_MIN_SAMPLES: min samples · 3 · ready below (7200ms) ≤ half of the readiness window (5s) does not hold: a pod without requests, such as an unready one, could not make enough claims of its own to be judged by',
    ],
    [
      'the same, by the number of samples',
      { FENCEPOST_READINESS_MIN_SAMPLES: '1000' },
      'FENCEPOST_READINESS_MIN_SAMPLES: min samples · 3 · ready below (6m) ≤ half of the readiness window (30s) does not hold: a pod without requests, such as an unready one, could not make enough claims of its own to be judged by',
    ],
    [
      'the retention against retries',
      { FENCEPOST_RETENTION: '1m' },
      'route unsafe-with-key: client retry window + lease + longest redelivery (150s) ≤ retention with a key (1m, FENCEPOST_RETENTION) does not hold: a late retry would be carried out again',
    ],
  ])('%s', (_why, env, error) => {
    expect(errorsOf(env)).toEqual([error])
  })

  test('the timeout of the application against how long a record may be held, for every route', () => {
    expect(errorsOf({ FENCEPOST_TOTAL_HOLD: '30s' })).toEqual(
      ['unsafe-with-key', 'unsafe-by-content'].map(
        (name) =>
          `route ${name}: upstream timeout (1m) ≤ total hold limit (30s, FENCEPOST_TOTAL_HOLD) does not hold: the record would be given up while the application still works`,
      ),
    )
  })

  test('relations are not checked when one of their values was refused', () => {
    expect(errorsOf({ FENCEPOST_LEASE: '1', FENCEPOST_NODE_DEADLINE: '99ms' })).toHaveLength(1)
  })

  test('the quarantine, unless set, is computed: longest lease, drift, clock step', () => {
    expect(accepted({}).quarantineMs).toBe(60_000 + 602 + 1_000)
    expect(accepted({ FENCEPOST_LEASE: '2m' }).quarantineMs).toBe(120_000 + 1_202 + 1_000)
    expect(accepted({ FENCEPOST_QUARANTINE: '5m' }).quarantineMs).toBe(300_000)
  })
})

test('the configuration is frozen, all the way down', () => {
  const frozen = (of: unknown): boolean =>
    typeof of !== 'object' || of === null || (Object.isFrozen(of) && Object.values(of).every(frozen))
  const loaded = load({ ...enough, FENCEPOST_REDIS_NODES: 'redis://a,redis://b,redis://c' })
  expect(loaded.kind).toBe('ok')
  expect(frozen(loaded)).toBe(true)
})
