/** A flood of large bodies on a sidecar with the memory of the chart, which killed it before bodies had a budget. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { holdInFlight } from '../../exhaustion/memory.ts'

const manifest = readFileSync(join(import.meta.dirname, '../../../deploy/k8s/sidecar/sidecar.yaml'), 'utf8')
const limitMiB = Number(/limits: \{ memory: (\d+)Mi \}/.exec(manifest)?.[1])

test('400 posts of 1 MB at once leave the sidecar alive: what fits is executed, the rest gets 503', {
  timeout: 240_000,
}, async () => {
  const run = await holdInFlight(
    { count: 400, bodyBytes: 1_000_000, limitMiB },
    { FENCEPOST_REDIS_NODES: 'embedded' },
  )
  if (run.lacks !== undefined) console.warn(`measured by the memory of the process alone: ${run.lacks}`)
  expect(run.killed).toBe(false)
  const { 201: executed = 0, 503: refused = 0, ...others } = run.answers
  expect(others).toEqual({})
  // Three quarters of a sixth of the limit, in bodies of 1 MB.
  expect(executed).toBe(Math.floor((limitMiB * 2 ** 20) / 8 / 1_000_000))
  expect(executed + refused).toBe(400)
  expect(run.cgroupPeakMiB ?? run.peakMiB).toBeLessThan(limitMiB)
})
