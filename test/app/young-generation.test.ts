/** How much memory the young generation of V8 has in a running sidecar, by the reports that Node writes on a signal. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { PATIENT, startSidecar } from '../support/sidecar.ts'

const MIB = 2 ** 20

test('the young generation is at its smallest until there are requests, and grows with them', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-heap-'))
  try {
    await using sidecar = await startSidecar({
      ...PATIENT,
      FENCEPOST_REDIS_NODES: 'embedded',
      NODE_OPTIONS: `--report-on-signal --report-signal=SIGWINCH --report-directory=${folder}`,
    })
    let reports = 0
    const youngBytes = async () => {
      sidecar.process.signal('SIGWINCH')
      reports += 1
      const report = await eventually('a whole report', () => {
        const names = readdirSync(folder).sort()
        const text = names.length < reports ? '' : readFileSync(join(folder, names.at(-1)!), 'utf8')
        return text.trimEnd().endsWith('}') ? (JSON.parse(text) as HeapReport) : undefined
      })
      return report.javascriptHeap.heapSpaces.new_space.memorySize
    }

    expect(await youngBytes()).toBeLessThanOrEqual(2 * MIB)
    let key = 0
    const reserve = async () => {
      const answer = await postedJson(`${sidecar.api}/v1/reservations`, {
        session_id: 'young',
        reserved_value: `key-${key++}`,
      })
      expect(answer.status).toBe(201)
    }
    await eventually(
      'it to grow',
      async () => {
        for (let turn = 0; turn < 20; turn += 1) await Promise.all(Array.from({ length: 20 }, reserve))
        return (await youngBytes()) > 4 * MIB
      },
      { withinMs: 60_000 },
    )
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

type HeapReport = {
  readonly javascriptHeap: { readonly heapSpaces: { readonly new_space: { readonly memorySize: number } } }
}
