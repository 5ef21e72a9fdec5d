/**
 * The short form of `npm run test:cluster`: a real cluster, the chart's own test, and three of five nodes evicted under traffic.
 * `npm test -- --all` takes it where the programs of a cluster are on the machine, and says so where they are not.
 */
import { spawn } from 'node:child_process'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

const PROGRAM = 'test/cluster/main.ts'
/** A minute where the machine does nothing else. */
const MS_MAX = 600_000

test('a chart installed into a cluster passes its own test, and loses no request while three of its five nodes are drained', {
  timeout: MS_MAX,
}, async () => {
  const child = spawn(process.execPath, [PROGRAM, '--patient', 'helm-test', 'drain'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise((resolve) => child.once('close', resolve))
  const [said, complained] = await Promise.all([text(child.stdout), text(child.stderr)])
  console.info(said)
  expect(await ended, `${said}\n${complained}`).toBe(0)
  const rows = said.split('\n').filter((line) => /^\| (helm-test|drain) \|/.test(line))
  expect(rows).toHaveLength(2)
})
