import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { commandFor, sum, type VitestReport, verdictOnTests } from '../../scripts/verdict.ts'

const ran = {
  name: 'a.test.ts',
  status: 'passed',
  assertionResults: [{ status: 'passed', ancestorTitles: [], title: 'one', failureMessages: [] }],
}
const broken = { name: 'b.test.ts', status: 'failed', assertionResults: [] }

const report = (passed: number, failed: number, more: Partial<VitestReport> = {}): VitestReport => ({
  numTotalTests: passed + failed,
  numPassedTests: passed,
  numFailedTests: failed,
  numPendingTests: 0,
  numTodoTests: 0,
  testResults: [ran],
  ...more,
})

// biome-ignore format: the table reads as a table
test.each<[string, VitestReport | undefined, number | null, boolean, number, number]>([
  //                                                      report              exit  selected  passed failed
  ['all passed',                                          report(3, 0),          0, false,    3, 0],
  ['one failed',                                          report(2, 1),          1, false,    2, 1],
  ['no test was run',                                     report(0, 0),          1, false,    0, 1],
  ['no test was run and Vitest is content with it',       report(0, 0),          0, true,     0, 1],
  ['a file could not be loaded',          report(2, 0, { testResults: [ran, broken] }), 1, false, 2, 1],
  ['an error outside of the tests',                       report(3, 0),          1, false,    3, 1],
  ['ended by a signal after the report',                  report(3, 0),       null, false,    3, 1],
  ['no report',                                           undefined,             1, false,    0, 1],
  ['one was skipped',                     report(3, 0, { numPendingTests: 1 }),  0, false,    3, 1],
  ['others were not selected',            report(3, 0, { numPendingTests: 9 }),  0, true,     3, 0],
])('%s', (_case, given, exitCode, selected, passed, failed) => {
  expect(verdictOnTests(given, exitCode, selected, '/root')).toMatchObject({ passed, failed })
})

test('a test that failed is named with the first line of its message and the command that runs it alone', () => {
  const failed = {
    status: 'failed',
    ancestorTitles: ['a claim'],
    title: 'holds',
    failureMessages: ['expected 1 to be 2\n  at a.ts:3'],
  }
  const silent = { status: 'failed', ancestorTitles: [], title: 'it ends', failureMessages: [] }
  const file = { name: '/root/c.test.ts', status: 'failed', assertionResults: [failed, silent] }
  const broken = { name: '/root/b.test.ts', status: 'failed', assertionResults: [] }
  const given = report(0, 2, { testResults: [ran, file, broken] })
  expect(verdictOnTests(given, 1, false, '/root').remarks).toEqual([
    'c.test.ts > a claim > holds: expected 1 to be 2',
    "  again: npm test -- c.test.ts -t '^a claim > holds$'",
    'c.test.ts > it ends: without a message',
    "  again: npm test -- c.test.ts -t '^it ends$'",
    'b.test.ts could not be run',
    '  again: npm test -- b.test.ts',
  ])
})

test.each(["what isn't there (yet), and `id`", String.raw`$HOME "x" a|b [1] {2} c\d * + ? ^ 100 %: é`])(
  'the command for the title %j passes the shell, and its pattern finds that title alone',
  (title) => {
    const [, words = ''] = commandFor('a.test.ts', title).split('npm test -- ')
    const { stdout } = spawnSync('sh', ['-c', `printf '%s\\n' ${words}`], { encoding: 'utf8' })
    const [file, option, pattern = '', ...more] = stdout.trimEnd().split('\n')
    expect([file, option, more]).toEqual(['a.test.ts', '-t', []])
    const found = [title, `${title}!`, `not ${title}`].filter((one) => new RegExp(pattern).test(one))
    expect(found).toEqual([title])
  },
)

test('the sum keeps every remark', () => {
  const lint = { passed: 0, failed: 1, remarks: ['lint'] }
  const tests = { passed: 4, failed: 2, remarks: ['tests'] }
  expect(sum([lint, tests])).toEqual({ passed: 4, failed: 3, remarks: ['lint', 'tests'] })
})
