/** The tables of pages, compared with the code in both directions, and the pages that are generated. A page's sentences are no fixture. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { goalText } from '../bench/support/goal-report.ts'
import { GOALS } from '../bench/support/goals.ts'
import { BOARDS } from '../dashboards/boards.ts'
import { gaugesText } from '../packages/saga/src/operations/gauges.ts'
import { CHARTS, chartReadme } from '../scripts/chart-readme.ts'
import { commandReference } from '../scripts/cli-reference.ts'
import { referenceText } from '../scripts/config-reference.ts'
import { rowOf, SETTING_KEYS } from '../src/config/settings.ts'
import { CODINGS_MAX, DECODED_BYTES_MAX } from '../src/core/formats/content-coding.ts'
import { JSON_DEPTH_MAX, JSON_VALUES_MAX } from '../src/core/formats/json.ts'
import { POINTERS_MAX } from '../src/core/formats/json-pointer.ts'
import { PART_HEAD_BYTES_MAX, PARTS_MAX } from '../src/core/formats/multipart.ts'
import { QUERY_PARAMETERS_MAX } from '../src/core/formats/query.ts'
import { FIELD_LENGTH_MAX } from '../src/core/formats/structured-field.ts'
import { NODE_FAULTS } from '../src/core/node-faults.ts'
import { FORM_PAIRS_MAX } from '../src/core/request/body-form.ts'
import { SHOWN_BODY_BYTES_MAX } from '../src/core/request/explain.ts'
import { BODY_BYTES_MAX } from '../src/core/request/fingerprint.ts'
import { KEY_BYTES_MAX, KEY_OF_PARTS_BYTES_MAX } from '../src/core/request/idempotency-key.ts'
import { SCOPE_PART_BYTES_MAX } from '../src/core/request/identity.ts'
import { IDEMPOTENCY_STATUSES } from '../src/http/message/answer.ts'
import { PROBLEM_CODES, PROBLEMS } from '../src/http/message/problems.ts'
import { CALL_NAMES, CALLS } from '../src/http/reservations/calls.ts'
import { ReserveBody } from '../src/http/reservations/schemas.ts'
import { createMetrics } from '../src/observe/metrics.ts'
import { createTally } from '../src/probe/tally.ts'
import { COMMAND_RULES } from '../src/redis/commands.ts'
import { ALL_FAULTS } from './faults/faults.ts'
import { MUTANTS as OF_SIDECARS } from './faults/mutants.ts'
import { MUTANTS as OF_CORE } from './simulation/mutants.ts'

const root = join(import.meta.dirname, '..')
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const sectionOf = (file: string, heading: string) =>
  textOf(file)
    .split(/^## /m)
    .find((text) => text.startsWith(`${heading}\n`)) ?? ''

/** The cells of each row that the pattern finds, in a stable order. */
function rowsOf(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map((row) => row.slice(1).join(' | ')).sort()
}

test.each([
  ['docs/reference/configuration.md', referenceText],
  ['docs/reference/cli.md', commandReference],
  ...CHARTS.map((chart) => [`deploy/helm/${chart}/README.md`, () => chartReadme(chart)] as const),
] as const)('%s is what `npm run generate` writes', async (file, generated) => {
  expect(textOf(file)).toBe(await generated())
})

test('docs/reference/problems.md lists exactly the codes, with their statuses', () => {
  expect(rowsOf(textOf('docs/reference/problems.md'), /^\| `([a-z-]+)` \| (\d{3}) \| (yes|no) \|/gm)).toEqual(
    PROBLEM_CODES.map((code) => {
      const { status, retryable } = PROBLEMS[code]
      return `${code} | ${status} | ${retryable ? 'yes' : 'no'}`
    }).sort(),
  )
})

test('every code that a configuration of deploy/gateways answers with is on a page', () => {
  const own = rowsOf(textOf('docs/guide/gateways.md'), /\| 503 `([a-z-]+)`/g)
  const said = globSync(['deploy/gateways/**/*.{conf,lua,yaml}', 'deploy/gateways/caddy/Caddyfile'], {
    cwd: root,
  })
    .map(textOf)
    .flatMap((text) => [...text.matchAll(/"code":"([a-z-]+)"|refusal\(\d+, "([a-z-]+)"/g)])
    .map(([, json, kong]) => json ?? kong ?? '')
  expect(said).toContain('fencepost-unreachable')
  expect(said.filter((code) => ![...PROBLEM_CODES, ...own].includes(code))).toEqual([])
})

test('docs/reference/http.md states the defaults of the settings, and the values of Idempotency-Status', () => {
  const rows = rowsOf(
    sectionOf('docs/reference/http.md', 'Limits'),
    /^\| [^|]+ \| ([^|]*) \| `([a-zA-Z.]+)`/gm,
  )
  const byPath = new Map(SETTING_KEYS.map((key) => [rowOf(key).path, rowOf(key).default]))
  expect(rows.length).toBeGreaterThan(10)
  for (const row of rows) {
    const [value = '', path = ''] = row.split(' | ')
    expect([path, byPath.get(path)]).toEqual([path, { kind: 'text', text: value.replace(/[ ,]/g, '') }])
  }
  const page = textOf('docs/reference/http.md')
  const statuses = page.slice(page.indexOf('| `Idempotency-Status` |'), page.indexOf('Without a quorum'))
  expect(rowsOf(statuses, /^\| `([a-z-]+)` \|/gm)).toEqual([...IDEMPOTENCY_STATUSES].sort())
})

test('docs/reference/telemetry.md names every metric with its type, and the dashboards name no other', async () => {
  const page = textOf('docs/reference/telemetry.md')
  const { exposition } = createMetrics({
    version: '1.2.3',
    nodeVersion: '26.0.0',
    nodes: ['redis-0'],
    required: 1,
    routes: ['payments'],
    nodeStats: true,
    observing: true,
  })
  // Those of `fencepost probe` stand in a table of their own.
  const exposed = `${(await exposition()).text}\n${createTally(2, ['api']).exposition()}`
  const types = rowsOf(exposed, /^# TYPE (\S+) (\S+)$/gm)
  expect(rowsOf(page, /^\| `([a-z_0-9]+)` \| (counter|gauge|histogram) \|/gm)).toEqual(types)
  // Those of the saga kit stand in its guide.
  const ofSagas = textOf('docs/guide/saga.md')
  expect(rowsOf(ofSagas, /^\| `(fencepost_\w+)` \|/gm)).toEqual(
    rowsOf(gaugesText(undefined), /^# TYPE (\S+)/gm),
  )
  const listed = new Set((page + ofSagas).match(/\bfencepost_\w+/g))
  const used = BOARDS.flatMap(({ panels }) =>
    panels.flatMap(({ queries }) =>
      queries.flatMap(({ expr }) => expr.match(/(?<![\w:])fencepost_\w+/g) ?? []),
    ),
  )
  expect(used.length).toBeGreaterThan(50)
  expect(
    used.filter((name) => !listed.has(name) && !listed.has(name.replace(/_(bucket|sum|count)$/, ''))),
  ).toEqual([])
})

const LIMITS = {
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
  const rows = textOf('docs/reference/fingerprint.md').matchAll(/^\| ([\d,]+) (\w+)[^|]*\| `([A-Z_]+)`/gm)
  const documented = [...rows].map(([, digits = '', unit = '', name]) => [
    name,
    Number(digits.replaceAll(',', '')) * (UNITS[unit] ?? 1),
  ])
  expect(Object.fromEntries(documented)).toEqual(LIMITS)
})

test('docs/reference/reservations.md lists exactly the calls, and the members of a reservation', () => {
  const calls = sectionOf('docs/reference/reservations.md', 'The calls')
  expect(rowsOf(calls, /^\| `((?:GET|POST) [^\s`?]+)/gm)).toEqual(
    CALL_NAMES.map((name) =>
      `${CALLS[name].method} ${CALLS[name].path}`.replace('{reservation_id}', '{id}'),
    ).sort(),
  )
  const members = (calls.split('| member |')[1] ?? '').match(/^\| ((?:`\w+`(?:, )?)+) \|/gm) ?? []
  expect(rowsOf(members.join('\n'), /`(\w+)`/g)).toEqual(Object.keys(ReserveBody.properties).sort())
})

test('docs/operations/node-faults.md has a row for each fault', () => {
  expect(rowsOf(textOf('docs/operations/node-faults.md'), /^\| `(\w+)` \| (.*) \| (.*) \|$/gm)).toEqual(
    Object.entries(NODE_FAULTS)
      .map(([fault, row]) => [fault, ...row].join(' | '))
      .sort(),
  )
})

test('docs/operations/nodes.md gives the rights to exactly the commands of the list', () => {
  expect(rowsOf(textOf('docs/operations/nodes.md'), /^user fencepost .* -@all (.*)$/gm)).toEqual([
    COMMAND_RULES,
  ])
})

test('docs/internals/faults.md and simulation.md list every fault and every broken build, and no other', () => {
  const faults = 'docs/internals/faults.md'
  expect(rowsOf(sectionOf(faults, 'The faults'), /^\| (F\d+[a-f]?) \|/gm)).toEqual(
    [...ALL_FAULTS.map(({ id }) => id), 'F36'].sort(),
  )
  expect(rowsOf(sectionOf(faults, 'The broken builds'), /^\| `([a-z-]+)` \|/gm)).toEqual(
    OF_SIDECARS.map(({ name }) => name).sort(),
  )
  const [, mutants = ''] =
    /^\| mutant \|.*\n((?:\|.*\n)+)/m.exec(textOf('docs/internals/simulation.md')) ?? []
  expect(rowsOf(mutants, /^\| `([a-z-]+)`/gm)).toEqual(OF_CORE.map(({ name }) => name).sort())
})

test('docs/internals/performance.md has the goals, with their commands', () => {
  const rows = rowsOf(
    sectionOf('docs/internals/performance.md', 'Goals'),
    /^\| ([^|]+) \| ([≤≥][^|]+) \|.*\| `([^|`]+)` \|$/gm,
  )
  expect(rows).toEqual(
    Object.values(GOALS)
      .map((one) => `${one.what} | ${goalText(one)} | bench -- ${one.bench}`)
      .sort(),
  )
})
