/**
 * From what the checks of `npm test` came to, the two numbers of its last line. A check that says less than it should
 * (no test was run, one was skipped, an error outside of any test) is a failure, with a sentence.
 */

/** What we read of the report of Vitest's reporter `json`. */
export type VitestReport = {
  readonly numTotalTests: number
  readonly numPassedTests: number
  readonly numFailedTests: number
  readonly numPendingTests: number
  readonly numTodoTests: number
  readonly testResults: readonly {
    readonly name: string
    readonly status: string
    readonly assertionResults: readonly VitestResult[]
  }[]
}

export type VitestResult = {
  readonly status: string
  readonly fullName: string
  readonly failureMessages: readonly string[]
}

export type Verdict = {
  readonly passed: number
  readonly failed: number
  readonly remarks: readonly string[]
}

/**
 * @param report undefined where Vitest wrote none
 * @param selected the caller named files or tests: then it is no fault that others are not run
 */
export function verdictOnTests(
  report: VitestReport | undefined,
  exitCode: number | null,
  selected: boolean,
): Verdict {
  if (report === undefined)
    return { passed: 0, failed: 1, remarks: [`vitest ended with ${exitCode} and without a report`] }
  const remarks: string[] = []
  let failed = report.numFailedTests
  for (const file of report.testResults) {
    // A file that could not be loaded has failed without a single test.
    if (file.status === 'failed' && file.assertionResults.length === 0) {
      failed += 1
      remarks.push(`${file.name} could not be run`)
    }
    // Once more at the very end: of a long log often only the end is kept.
    for (const test of file.assertionResults)
      if (test.status === 'failed') remarks.push(`${file.name} > ${test.fullName}: ${firstLine(test)}`)
  }
  if (report.numPassedTests + failed === 0) {
    failed += 1
    remarks.push('no test was run')
  }
  const skipped = report.numPendingTests + report.numTodoTests
  if (skipped > 0 && !selected) {
    failed += skipped
    remarks.push(`${skipped} skipped: a test that does not run proves nothing, so it counts as failed`)
  }
  if (exitCode !== 0 && failed === 0) {
    failed += 1
    remarks.push(
      `vitest ended with ${exitCode} although no test failed: an error outside of the tests, see above`,
    )
  }
  return { passed: report.numPassedTests, failed, remarks }
}

function firstLine({ failureMessages: [message = 'without a message'] }: VitestResult): string {
  return message.split('\n', 1)[0] ?? message
}

export function sum(verdicts: readonly Verdict[]): Verdict {
  return {
    passed: verdicts.reduce((total, one) => total + one.passed, 0),
    failed: verdicts.reduce((total, one) => total + one.failed, 0),
    remarks: verdicts.flatMap((one) => one.remarks),
  }
}
