// A burst of requests on a whole sidecar: what else it has to do gets its turn. A slice is `request-scheduler.test.ts`.
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { TestProcess } from '../../support/processes.ts'

test('fifteen hundred simultaneous requests delay a scrape by less than 100 ms of CPU', async () => {
  const program = fileURLToPath(new URL('../../../bench/longest-turn.ts', import.meta.url))
  await using bench = new TestProcess(process.execPath, [program], { name: 'bench/longest-turn.ts' })
  const { code } = await bench.exited
  expect({ code, said: bench.output }).toMatchObject({
    code: 0,
    said: expect.stringContaining('longest turns'),
  })
}, 120_000)
