/**
 * The short form of `npm run test:cluster`: a real cluster, the chart's own test, and three of five nodes evicted under traffic.
 * `npm test -- --all` takes it where the programs of a cluster are on the machine, and says so where they are not.
 */
import { expect, test } from 'vitest'
import { TestProcess } from '../support/processes.ts'

const PROGRAM = 'test/cluster/main.ts'
/** A minute where the machine does nothing else. */
const MS_MAX = 600_000

test('a chart installed into a cluster passes its own test, and loses no request while three of its five nodes are drained', {
  timeout: MS_MAX,
}, async () => {
  await using cluster = new TestProcess(process.execPath, [PROGRAM, '--patient', 'helm-test', 'drain'], {
    name: 'test:cluster',
  })
  const { code } = await cluster.exited
  console.info(cluster.output)
  expect(code, cluster.output).toBe(0)
  const rows = cluster.output.split('\n').filter((line) => /^\| (helm-test|drain) \|/.test(line))
  expect(rows).toHaveLength(2)
})
