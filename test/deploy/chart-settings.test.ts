/** The charts know fencepost's settings: a wrong one is refused when Helm renders, and not when the pod starts. */
import { cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { SCHEMA_FILE, schemaText, TABLE_FILE, tableText } from '../../scripts/chart-settings.ts'
import { rowOf, SETTING_KEYS } from '../../src/config/settings.ts'
import { duringTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { prepareCharts } from '../support/helm-charts.ts'

const charts = duringTests(() => prepareCharts(), FETCH_MS_MAX)

const SERVICE = ['--set', 'service.tokenSecret=token,redis.bundled.openToAll=true']

test('the table and the schema of the charts are what `npm run generate -- chart-settings` writes', () => {
  expect(readFileSync(TABLE_FILE, 'utf8')).toBe(tableText())
  const written = readFileSync(SCHEMA_FILE, 'utf8')
  expect(written).toBe(schemaText(written))
})

/** What a part of a chart does with other rules: a file is named by secretFiles, the others belong to members. */
const BY_MEMBERS = /^FENCEPOST_(REDIS_|INSTANCE$|ADMIN_LISTEN$|UPSTREAM$|API_TOKEN_FILE$)/
const ROWS = SETTING_KEYS.map(rowOf).filter(({ env }) => !BY_MEMBERS.test(env))
/** Wrong notations, and amounts of every unit on both sides of every limit. */
const PROBES = [
  'banana',
  'on',
  'off',
  'true',
  '0',
  '1',
  '2',
  '-1',
  '1.5',
  '0.25',
  '1/3',
  '3/2',
  '01',
  '7 s',
  '10000001',
  '0ms',
  '99ms',
  '100ms',
  '1s',
  '61s',
  '2h',
  '25h',
  '367d',
  '1d',
  '0B',
  '2GiB',
  '1KiB',
  '65GiB',
  'info',
  'local',
  'a b',
]
/** One run of Helm for all texts. */
const EVERY_FAULT = `{{- range .Values.probes }}
---
text: {{ .text | quote }}
faults: {{ include "fencepost-lib.settingFaults" (dict "settings" .settings) | quote }}
{{- end }}
`
/** The parser knows more of these than a pattern says. */
const UNCHECKED = new Set(ROWS.filter(({ kind }) => accepted(kind.schema)).map(({ env }) => env))
function accepted(schema: Readonly<Record<string, unknown>>): boolean {
  const { minLength, anyOf } = schema
  const isFraction = Array.isArray(anyOf) && anyOf.some((one) => one.type === 'number')
  return minLength !== undefined || (Array.isArray(anyOf) && !isFraction)
}

test('the library refuses a text for exactly those settings whose parser refuses it', () => {
  const chart = join(charts.folder, 'probes')
  cpSync(join(charts.folder, 'fencepost-lib'), chart, { recursive: true })
  const about = readFileSync(join(chart, 'Chart.yaml'), 'utf8')
  writeFileSync(join(chart, 'Chart.yaml'), about.replace('type: library', 'type: application'))
  writeFileSync(join(chart, 'templates/probes.yaml'), EVERY_FAULT)
  writeFileSync(
    join(chart, 'values.yaml'),
    JSON.stringify({
      probes: PROBES.map((text) => ({
        text,
        settings: Object.fromEntries(ROWS.map(({ env }) => [env, text])),
      })),
    }),
  )
  const told = new Map<string, string[]>(
    charts
      .rendered('probes', [])
      .map(({ text, faults }) => [
        text,
        [...faults.matchAll(/^settings\.(\w+) is "/gm)].map(([, name]) => name).sort(),
      ]),
  )
  for (const text of PROBES) {
    const refused = ROWS.filter(({ env, kind }) => {
      const verdict = kind.parse(text, () => 'content')
      return !UNCHECKED.has(env) && verdict.kind === 'refused'
    })
    expect([text, told.get(text)]).toEqual([text, refused.map(({ env }) => env).sort()])
  }
})

/**
 * Bug: YAML makes 1.1 of 1.10 and false of no. Records stood under another version or tenant than the one that was written, without a word;
 * `on` was refused as "true", and a listener that is off ended the pod with 78.
 */
test.each<[written: string, became: string]>([
  ['FENCEPOST_API_VERSION: 1.10', 'settings.FENCEPOST_API_VERSION is the number 1.1: put it in quotes'],
  ['FENCEPOST_TENANT: 007', 'settings.FENCEPOST_TENANT is the number 7: put it in quotes'],
  ['FENCEPOST_TENANT: no', 'settings.FENCEPOST_TENANT is the switch false: put it in quotes'],
  ['FENCEPOST_PROXY_LISTEN: on', 'settings.FENCEPOST_PROXY_LISTEN is the switch true: put it in quotes'],
])('a text that YAML has changed is refused: %s', (written, told) => {
  expect(charts.refusal('example', ['--values', settingsFile(written)])).toContain(told)
})

test('on and off are what they are in the documentation, also where YAML reads true and false', () => {
  const written =
    'FENCEPOST_TRACING: on, FENCEPOST_LOG_RAW_KEYS: off, FENCEPOST_API_LISTEN: off, OTEL_SDK_DISABLED: true'
  const [{ spec }] = charts.rendered('example', ['--values', settingsFile(written)])
  expect(spec.template.spec.initContainers[0].env).toEqual(
    expect.arrayContaining([
      { name: 'FENCEPOST_TRACING', value: 'on' },
      { name: 'FENCEPOST_LOG_RAW_KEYS', value: 'off' },
      { name: 'FENCEPOST_API_LISTEN', value: 'off' },
      { name: 'OTEL_SDK_DISABLED', value: 'true' },
    ]),
  )
})

// Bug: the page about deployment says what to write into it under a smaller limit of memory, and the charts refused it.
test('the options of Node itself are a setting', () => {
  const written = 'NODE_OPTIONS: --max-semi-space-size=8 --enable-source-maps'
  const [{ spec }] = charts.rendered('example', ['--values', settingsFile(written)])
  expect(spec.template.spec.initContainers[0].env).toContainEqual({
    name: 'NODE_OPTIONS',
    value: '--max-semi-space-size=8 --enable-source-maps',
  })
  const service = [
    '--set',
    'redis.bundled.openToAll=true,service.tokenSecret=token,settings.NODE_OPTIONS=--max-old-space-size=99',
  ]
  expect(charts.rendered('fencepost', service)).not.toEqual([])
})

function settingsFile(settings: string): string {
  const file = join(charts.folder, 'settings.yaml')
  writeFileSync(file, `fencepost:\n  settings: { ${settings} }\n`)
  return file
}

test('what no pattern says is left to fencepost, and only that', () => {
  expect([...UNCHECKED].sort()).toEqual([
    'FENCEPOST_KEY_RING_FILE',
    'FENCEPOST_OPERATOR_TOKENS_FILE',
    'FENCEPOST_PAGE_ORIGINS',
    'FENCEPOST_RESERVATION_SECRET_FILE',
    'FENCEPOST_TLS_CERT_FILE',
    'FENCEPOST_TLS_CLIENT_CA_FILE',
    'FENCEPOST_TLS_KEY_FILE',
    'FENCEPOST_TLS_LISTENERS',
    'FENCEPOST_TRUSTED_PEERS',
  ])
})

describe('the chart fencepost', () => {
  test.each<[set: string, told: RegExp]>([
    [
      'settings.FENCEPOST_LEASE=banana',
      /settings\.FENCEPOST_LEASE is "banana": accepted is a duration .* from 100ms to 1h\./,
    ],
    ['settings.FENCEPOST_LEASE=2h', /settings\.FENCEPOST_LEASE is "2h": accepted is a duration/],
    ['settings.FENCEPOST_LEAS=30s', /settings\.FENCEPOST_LEAS is given, and fencepost has no such setting/],
    ['config.record.lease=banana', /config\/record\/lease.*does not match pattern/s],
    ['config.record.lease=2h', /config\.record\.lease is "2h": accepted is a duration/],
    ['config.recrd.lease=30s', /config.*recrd.*not allowed/s],
    ['config.routes[0].name=a,config.routes[0].mode=sometimes', /config\/routes\/0/],
  ])('refuses %s', (set, told) => {
    expect(charts.refusal('fencepost', [...SERVICE, '--set', set])).toMatch(told)
  })

  test('says all faults at once', () => {
    const set = 'settings.FENCEPOST_LEASE=a,settings.FENCEPOST_RETENTION=b,config.limits.wait=2h'
    const said = charts.refusal('fencepost', [...SERVICE, '--set', set])
    for (const name of ['settings.FENCEPOST_LEASE', 'settings.FENCEPOST_RETENTION', 'config.limits.wait'])
      expect(said).toContain(`${name} is "`)
  })

  test.each<[set: string, waits: string]>([
    ['', '61602ms'],
    ['settings.FENCEPOST_LEASE=90s', '91902ms'],
    ['config.record.lease=90s', '91902ms'],
    ['settings.FENCEPOST_QUARANTINE=3m', '180000ms'],
    ['settings.FENCEPOST_CLOCK_STEP=2s', '62602ms'],
    [
      'config.routes[0].name=a,config.routes[0].mode=header,config.routes[0].match.paths={/a},config.routes[0].lease=2m',
      '122202ms',
    ],
  ])('with a rollout that waits for a time, %s needs more than %s', (set, waits) => {
    const connects = ['--set', 'redis.bundled.readiness=connects', ...(set === '' ? [] : ['--set', set])]
    const seconds = Math.floor(Number.parseInt(waits, 10) / 1_000)
    const ready = (atLeast: number) => ['--set', `redis.bundled.minReadySeconds=${atLeast}`]
    expect(charts.refusal('fencepost', [...SERVICE, ...connects, ...ready(seconds)])).toContain(
      `redis.bundled.minReadySeconds is ${seconds} with redis.bundled.readiness connects, and a node that forgot does not vote for ${waits} `,
    )
    charts.rendered('fencepost', [...SERVICE, ...connects, ...ready(seconds + 1)])
  })
})
