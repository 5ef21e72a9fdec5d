/**
 * `npm test`: server programs, lint, types, tests; the last line of its output is `N passed, N failed`, where lint,
 * types and the types of the page count as one check each. Ends with 0 only where a test passed and none failed.
 *
 *   npm test              everything but the long tests (*.long.test.ts): some minutes
 *   npm test -- --all     the long ones, too
 *   npm test -- test/core any other arguments go to Vitest: only the tests that they select, long ones among them.
 *                         A server program that is missing stops only the tests that need it
 */
import { spawn } from 'node:child_process'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { whyNotAtOnce } from '../test/cluster/requirements.ts'
import { FETCHED_PROGRAMS, fetchProgram, OF_LONG_TESTS } from '../test/support/fetched-programs.ts'
import { isTraefikBuilt } from '../test/support/traefik.ts'
import { provideServerPrograms, whatToInstall } from './server-programs.ts'
import { sum, type Verdict, type VitestReport, verdictOnTests } from './verdict.ts'

/**
 * All tests take 25 to 35 minutes on two cores, and are to stay below 40. Ended is what hangs: a virtual machine at half of its usual speed
 * was not done after 38, and no test was wrong.
 */
const testsMsMax = 75 * 60_000

/** From the first signal to a hanging check to the one that can't be ignored. */
const graceMs = 10_000

/** Every test by name, with its time; kept until the next run. */
const reportFile = '.tmp/test-report.json'

async function main(args: readonly string[]): Promise<number> {
  const selection = args.filter((argument) => argument !== '--all')
  const selected = selection.length > 0
  const missing = provideServerPrograms()
  for (const sentence of whatToInstall(missing)) console.error(sentence)
  if (selected) return conclude([await tests(selection, selected)])
  if (missing.length > 0) return conclude([{ passed: 0, failed: missing.length, remarks: [] }])

  const all = args.includes('--all')
  await fetchPrograms(all)
  if (all) chooseCluster()
  if (!isTraefikBuilt())
    console.error(
      'Left, Traefik as one of the gateways: `npm run campaign -- traefik` builds it, for minutes.',
    )
  const checks = await Promise.all([
    check('lint', 'biome', ['check', '.']),
    // One checker: each of several checks again what the others have imported, and the linter has the other core.
    check('types', 'tsc', ['--noEmit', '--checkers', '1']),
    check('types of the page', 'tsc', ['--noEmit', '-p', 'tsconfig.page.json']),
  ])
  return conclude([...checks, await tests(all ? [] : ['--project', '!long*'], selected)])
}

/**
 * Before the tests, because building one takes minutes of all cores. A missing program fails the tests that need it.
 */
async function fetchPrograms(all: boolean): Promise<void> {
  for (const name of FETCHED_PROGRAMS.filter((one) => all || !OF_LONG_TESTS.has(one))) {
    const patience = setTimeout(() => console.error(`fetching ${name}, once …`), 1_000)
    await fetchProgram(name).catch(({ message }: Error) => console.error(message))
    clearTimeout(patience)
  }
}

/** The tests in a cluster of Kubernetes run where one starts at once: its programs take twenty minutes to build. */
function chooseCluster(): void {
  const why = whyNotAtOnce()
  if (why.length === 0) process.env.TESTED_CLUSTER = 'on'
  else console.error(`Left, no test in a cluster of Kubernetes:\n  ${why.join('\n  ')}`)
}

async function check(name: string, command: string, args: readonly string[]): Promise<Verdict> {
  const code = await run(command, args, 5 * 60_000)
  return code === 0
    ? { passed: 1, failed: 0, remarks: [] }
    : { passed: 0, failed: 1, remarks: [`${name}: \`${command} ${args.join(' ')}\` ended with ${code}`] }
}

async function tests(args: readonly string[], selected: boolean): Promise<Verdict> {
  // The report of an earlier run must not count for this one.
  await rm(reportFile, { force: true })
  const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${reportFile}`]
  const code = await run('vitest', ['run', ...reporters, ...args], testsMsMax)
  const report = await readFile(reportFile, 'utf8').then(
    (text) => JSON.parse(text) as VitestReport,
    () => undefined,
  )
  return verdictOnTests(report, code, selected, join(import.meta.dirname, '..'))
}

/** Runs a program of node_modules/.bin, which scripts/run.mjs has put on the PATH. */
function run(command: string, args: readonly string[], withinMs: number): Promise<number | null> {
  return new Promise((resolve) => {
    const child = spawn(command, args, { stdio: 'inherit' })
    const passOn = () => child.kill('SIGTERM')
    process.once('SIGTERM', passOn)
    let last: NodeJS.Timeout | undefined
    const overdue = setTimeout(() => {
      console.error(`${command} has not ended within ${withinMs / 60_000} minutes and is ended now`)
      child.kill('SIGTERM')
      last = setTimeout(() => child.kill('SIGKILL'), graceMs)
    }, withinMs)
    child.once('error', (error) => console.error(`${command} could not be started: ${error.message}`))
    child.once('close', (code) => {
      clearTimeout(overdue)
      clearTimeout(last)
      process.off('SIGTERM', passOn)
      resolve(code)
    })
  })
}

function conclude(verdicts: readonly Verdict[]): number {
  const { passed, failed, remarks } = sum(verdicts)
  for (const remark of remarks) console.log(remark)
  console.log(`${passed} passed, ${failed} failed`)
  return passed > 0 && failed === 0 ? 0 : 1
}

process.exitCode = await main(process.argv.slice(2))
