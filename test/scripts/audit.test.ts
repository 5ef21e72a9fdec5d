/** `npm run release -- audit` never takes a registry that did not answer for one that knows no vulnerability. */
import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type AuditVerdict, acceptedIn, EXIT_CODES, verdictOnAudit } from '../../scripts/audit.ts'
import { listening } from '../support/listening.ts'
import { TestProcess } from '../support/processes.ts'

const ID = 'GHSA-aaaa-bbbb-cccc'
const advisory = {
  url: `https://github.com/advisories/${ID}`,
  title: 'Reads too far',
  severity: 'high',
  range: '<2',
}
const report = (vulnerabilities: object) =>
  JSON.stringify({
    auditReportVersion: 2,
    vulnerabilities,
    metadata: { vulnerabilities: {}, dependencies: { prod: 7, total: 9 } },
  })
const FOUND = report({
  leaf: { via: [advisory] },
  // It depends on the other one.
  branch: { via: ['leaf'] },
})

test.each<[what: string, written: string, accepted: string[], kind: AuditVerdict['kind'], last: string]>([
  ['no known vulnerability', report({}), [], 'clean', '0 known vulnerabilities in 7 packages, 0 accepted'],
  ['one is known', FOUND, [], 'findings', '1 known vulnerabilities in 7 packages, 0 accepted'],
  ['it is accepted', FOUND, [ID], 'clean', '0 known vulnerabilities in 7 packages, 1 accepted'],
  ['another is accepted', FOUND, ['GHSA-x'], 'findings', '1 known vulnerabilities in 7 packages, 0 accepted'],
  [
    'the registry does not take the question',
    '{"message":"405 Method Not Allowed","statusCode":405,"error":{"summary":""}}',
    [],
    'unchecked',
    'unchecked: the registry did not say which vulnerabilities are known (405 Method Not Allowed)',
  ],
  [
    'no words',
    '',
    [],
    'unchecked',
    'unchecked: the registry did not say which vulnerabilities are known (npm wrote no report)',
  ],
  [
    'other words',
    '[]',
    [],
    'unchecked',
    'unchecked: the registry did not say which vulnerabilities are known (npm wrote no report)',
  ],
  [
    'half a report',
    '{"vulnerabilities":{}}',
    [],
    'unchecked',
    'unchecked: the registry did not say which vulnerabilities are known (npm wrote no report)',
  ],
])('%s', (_what, written, accepted, kind, last) => {
  const verdict = verdictOnAudit(written, new Set(accepted))
  expect([verdict.kind, verdict.lines.at(-1)]).toEqual([kind, last])
})

test('a finding is printed with its number, severity, package and range', () => {
  expect(verdictOnAudit(FOUND, new Set()).lines[0]).toBe(`${ID} high: leaf <2 Reads too far`)
})

test('a finding is accepted when it has a row with a reason', () => {
  const rows = `| \`${ID}\` | \`leaf\` | it is never given what strangers send |\n| \`GHSA-1\` | \`leaf\` | |\nGHSA-2\n`
  expect([...acceptedIn(rows)]).toEqual([ID])
})

test.each<[what: string, status: number, answer: string, kind: AuditVerdict['kind'], said: RegExp]>([
  ['answers', 200, '{}', 'clean', /^0 known vulnerabilities in \d+ packages/m],
  ['does not answer that', 405, '', 'unchecked', /^unchecked: .*405/m],
])('a registry that %s is reported, by the exit code too', async (_what, status, answer, kind, said) => {
  const asked: string[] = []
  await using stack = new AsyncDisposableStack()
  const registry = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`)
    request
      .resume()
      .on('end', () => response.writeHead(status, { 'content-type': 'application/json' }).end(answer))
  })
  const at = await listening(registry)
  stack.defer(() => void registry.close())
  const origin = `http://127.0.0.1:${at.port}/`
  const command = stack.use(
    new TestProcess(process.execPath, [join(import.meta.dirname, '../../scripts/audit.ts')], {
      env: { npm_config_registry: origin, npm_config_fetch_retries: '0' },
    }),
  )
  expect(await command.exited).toMatchObject({ code: EXIT_CODES[kind] })
  expect(command.output).toMatch(said)
  expect(asked[0]).toMatch(/^POST \/-\/npm\/v1\/security\/advisories\/bulk/)
})
