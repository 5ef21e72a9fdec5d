import { expect, test } from 'vitest'
import { sum, type VitestReport, verdictOnTests } from '../../scripts/verdict.ts'

const ran = {
  name: 'a.test.ts',
  status: 'passed',
  assertionResults: [{ status: 'passed', fullName: 'one', failureMessages: [] }],
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
  expect(verdictOnTests(given, exitCode, selected)).toMatchObject({ passed, failed })
})

test('a test that failed is named with the first line of its message', () => {
  const failed = {
    status: 'failed',
    fullName: 'it holds',
    failureMessages: ['expected 1 to be 2\n  at a.ts:3'],
  }
  const silent = { status: 'failed', fullName: 'it ends', failureMessages: [] }
  const file = { name: 'c.test.ts', status: 'failed', assertionResults: [failed, silent] }
  expect(verdictOnTests(report(0, 2, { testResults: [ran, file] }), 1, false).remarks).toEqual([
    'c.test.ts > it holds: expected 1 to be 2',
    'c.test.ts > it ends: without a message',
  ])
})

test('the sum keeps every remark', () => {
  const lint = { passed: 0, failed: 1, remarks: ['lint'] }
  const tests = { passed: 4, failed: 2, remarks: ['tests'] }
  expect(sum([lint, tests])).toEqual({ passed: 4, failed: 3, remarks: ['lint', 'tests'] })
})
