// A fault run that is long, or whose nodes never come back: it ends, and names the outage.
import { expect, test } from 'vitest'
import type { Fault } from './fault.ts'
import { type Execution, History, type Operation } from './history.ts'
import { judge } from './judge.ts'
import { reportAsJson, reportAsText } from './report.ts'
import { runFaults } from './run.ts'
import { timeline } from './timeline.ts'

/** Three of five nodes forget everything, and the operator does not declare it: the cluster has to stay closed. */
const OUTAGE: Fault = {
  id: 'F7',
  what: 'three nodes forget everything, and no operator decides',
  how: 'FLUSHALL',
  inject: async ({ stage }) => {
    await Promise.all([0, 1, 2].map((node) => stage.admin[node]?.flushall()))
    return 3
  },
}

test('an outage that outlasts its healing ends the run with a violation that names it', {
  timeout: 120_000,
}, async () => {
  const report = await runFaults({ seed: 1, lastsMs: 600_000, faults: [OUTAGE], backWithinMs: 10_000 })
  expect(report.violations.find(({ checker }) => checker === 'did-not-come-back')?.detail).toMatch(
    /^10 s after the healing of F7 \(three nodes forget everything, and no operator decides\) there were not 3 voting nodes and an answer: of 5 the sidecars see 2, 2, 2, and a request is answered 503 quorum-unavailable$/,
  )
})

test('150,000 operations are judged, reported and drawn in less than a minute', () => {
  const history = new History()
  const executions: Execution[] = []
  for (let op = 0; op < 150_000; op += 1) {
    const key = op % 10 === 9 ? `r-value-${Math.floor(op / 600)}` : `key-${Math.floor(op / 4)}`
    const startMs = history.startedMs + op * 5
    history.add(operation(op, key, startMs, executions.length > 0 && op % 4 > 0))
    if (op % 4 === 0) executions.push({ ...execution(op, key), startMs: startMs + 1, endMs: startMs + 2 })
  }
  for (let at = 0; at < 100; at += 1) {
    const fromMs = history.startedMs + at * 7_000
    history.fault({ id: `F${at % 38}`, what: 'a fault', fromMs, untilMs: fromMs + 6_000, bites: 1 })
  }
  const stage = {
    logs: ['x'.repeat(8 * 1024 * 1024)],
    exits: [],
    application: { executions: () => executions },
  }
  const startedMs = performance.now()
  const report = judge(1, stage, history, [], [], [], undefined)
  const drawn = [reportAsText(report), reportAsJson(report, 'none'), timeline(report)]
  expect(performance.now() - startedMs).toBeLessThan(60_000)
  expect(drawn.every((text) => text.length > 0)).toBe(true)
})

function operation(op: number, key: string, startMs: number, again: boolean): Operation {
  const base = { op, sidecar: op % 3, key, startMs, endMs: startMs + 4, healed: false, type: 'ok' } as const
  if (key.startsWith('r-'))
    return {
      ...base,
      f: 'reserve',
      token: undefined,
      status: 503,
      code: 'quorum-unavailable',
      expiresInMs: 0,
    }
  return {
    ...base,
    f: 'submit',
    tenant: 'acme',
    content: 'c',
    status: 201,
    says: again ? 'replayed' : 'created',
    body: `answer of ${key}`,
    code: '',
  }
}

function execution(op: number, key: string) {
  return {
    key,
    tenant: 'acme',
    content: 'c',
    token: op + 1,
    attempt: 1,
    op,
    mode: 'ok',
    answer: `answer of ${key}`,
  }
}
