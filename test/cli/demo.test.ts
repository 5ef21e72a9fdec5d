import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { startFencepost } from '../support/processes.ts'
import { requireProgram } from '../support/programs.ts'

test.each([
  ['five processes of a Redis that is on the PATH', {}, /nodes: +5 processes of \S*(redis|valkey)-server/],
  ['five embedded nodes where none is', { PATH: '/nowhere' }, /nodes: +5 embedded/],
])('the demonstration ends well on %s', async (_case, env, nodes) => {
  requireProgram('redis')
  await using demo = startFencepost(['demo'], { env })
  expect(await demo.exited, demo.output).toEqual({ code: 0, signal: null })
  expect(demo.output).toMatch(nodes)
  expect(demo.output).toMatch(/node \d of 5 was killed/)
  expect(demo.output).toMatch(/carried out +50\n/)
  expect(demo.output).toMatch(/quorum margin \(spare votes\) +\d ×\d+/)
  expect(demo.output.trimEnd()).toMatch(/50 of 50 payments carried out once$/)
})

test.each(['SIGTERM', 'SIGINT'] as const)(
  'a demonstration ended by %s leaves no process behind',
  async (signal) => {
    requireProgram('redis')
    await using demo = startFencepost(['demo', '--keep'])
    await demo.line(/storm:/)
    const children = await childrenOf(demo.pid)
    // One node is killed half-way through the storm, which goes on while we look.
    expect([5, 6], 'four or five nodes and the sidecar').toContain(children.length)
    expect(await demo.end({ signal })).toMatchObject({ signal: null })
    await eventually('all to be gone', () => children.every((pid) => !lives(pid)))
  },
)

async function childrenOf(pid: number): Promise<number[]> {
  const { stdout } = await promisify(execFile)('ps', ['-A', '-o', 'ppid=,pid='])
  const pairs = stdout
    .trim()
    .split('\n')
    .map((line) => line.trim().split(/\s+/).map(Number))
  return pairs.flatMap(([parent, child]) => (parent === pid && child !== undefined ? [child] : []))
}

function lives(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
