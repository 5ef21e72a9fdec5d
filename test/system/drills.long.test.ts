/** The commands of docs/operations/drills.md, as they stand there, on five real nodes and a real sidecar under synthetic duplicates. */
import { writeFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { DRILL_STEPS, missingIn } from '../support/drills-page.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { requireProgram } from '../support/programs.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

/** Of sidecar and commands alike. A node that forgot waits for 22 s instead of a minute, and a busy machine is no lost quorum. */
const SETTINGS = {
  FENCEPOST_LEASE: '10s',
  FENCEPOST_RESERVATION_MAX_LEASE: '20s',
  FENCEPOST_NODE_DEADLINE: '500ms',
  FENCEPOST_CLAIM_BUDGET: '3s',
  FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
  FENCEPOST_PROXY_LISTEN: 'off',
  FENCEPOST_REDIS_NODE_NAMES: 'redis-0,redis-1,redis-2,redis-3,redis-4',
} as const

/** Of these leases: 20 s, 1 % and 2 ms, and a step of a clock. */
const QUARANTINE_S = 21

/** Nodes that are started again with their data vote without one. */
const WITHOUT_QUARANTINE = [
  'It is started again with its data',
  'It is back',
  'The power of all machines fails',
]

const TIMEOUT_MS = 600_000
const marked = (index: number) => `=== step ${index} ends`

test('each drill ends as its page says, and no duplicate is executed meanwhile', {
  timeout: TIMEOUT_MS,
}, async () => {
  // A replica gets its data at once.
  await using servers = await startRedisServers(5, {
    founded: true,
    appendOnly: true,
    config: ['repl-diskless-sync-delay 0'],
  })
  const settings = {
    ...SETTINGS,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
  }
  await using sidecar = await startSidecar(settings)
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-drills-'))
  await using stack = new AsyncDisposableStack()
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  writeFileSync(
    join(folder, 'drills.sh'),
    DRILL_STEPS.map(({ commands }, index) => `${commands}echo '${marked(index)}'\n`).join(''),
  )
  let output = ''
  const shell = inGroup(stack, ['sh', '-eu', 'drills.sh'], {
    cwd: folder,
    env: {
      ...settings,
      PATH: `${dirname(requireProgram('redis'))}:${process.env.PATH}`,
      FENCEPOST: `${process.execPath} ${MAIN_PROGRAM}`,
      NODES: dirname(servers.at(0).folder),
      API: sidecar.api,
      ADMIN: sidecar.admin,
    },
    onOutput: (text) => {
      output += text
    },
  })
  // Below the limit of the test, so that what runs in its group is ended.
  await shell.until('the end of the drills', () => !shell.running, {
    withinMs: TIMEOUT_MS - 60_000,
    everyMs: 200,
  })
  const { code } = await shell.exited

  let rest = output
  for (const [index, step] of DRILL_STEPS.entries()) {
    const [own = '', ...after] = rest.split(`${marked(index)}\n`)
    expect(missingIn(own, step), `${step.heading}\n${step.commands}\n${own}`).toEqual([])
    if (WITHOUT_QUARANTINE.includes(step.heading))
      expect(Number(/^waited (\d+) s for 5 votes$/m.exec(own)?.[1])).toBeLessThan(QUARANTINE_S)
    rest = after.join(`${marked(index)}\n`)
  }
  expect(code).toBe(0)
  // The second probe met the outages, so it was there.
  expect(output).toMatch(/^[1-9]\d* errors, 0 wrong answers$/m)
})

/** Nodes that the page starts are children of its shell, and go with their process group. */
function inGroup(
  stack: AsyncDisposableStack,
  command: readonly string[],
  options: ConstructorParameters<typeof TestProcess>[2],
): TestProcess {
  const shell = stack.use(new TestProcess('setsid', command, { name: 'drills', ...options }))
  const endGroup = () => {
    try {
      process.kill(-shell.pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }
  process.once('exit', endGroup)
  stack.defer(() => {
    process.off('exit', endGroup)
    endGroup()
  })
  return shell
}
