/** The rules of Prometheus, run by promtool. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { stringify } from 'yaml'
import { requireProgram } from '../support/programs.ts'
import { HEALTHY_MINUTES, type Incident, seriesOf, USUAL } from './scenarios.ts'

const root = join(import.meta.dirname, '../..')
export const RULES = ['fencepost', 'fencepost-sagas'].map((name) =>
  join(root, `dashboards/rules/${name}.rules.yaml`),
)

/** Has promtool check which alerts fire at which minute; throws its output where others do. */
export async function play(
  inputSeries: { series: string; values: string }[],
  firing: Readonly<Record<number, readonly string[]>>,
  interval = '1m',
) {
  await usingFile('alerts.test.yaml', async (file) => {
    const expectations = Object.entries(firing).map(([minute, expected]) => ({
      expr: 'group by (alertname) (ALERTS{alertstate="firing"})',
      eval_time: `${minute}m`,
      exp_samples: [...expected].sort().map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
    }))
    const test = { interval, input_series: inputSeries, promql_expr_test: expectations }
    await writeFile(file, stringify({ rule_files: RULES, evaluation_interval: interval, tests: [test] }))
    expect(await promtool('test', 'rules', file)).toContain('SUCCESS')
  })
}

/**
 * What the annotation `pod` of each alert says while it fires. promtool shows alerts only where they differ from what was
 * expected: so it is told that none fires.
 */
export function podsNamedIn(
  incidents: readonly Incident[],
  usual = USUAL,
): Promise<ReadonlyMap<string, string>> {
  return usingFile('annotations.test.yaml', async (file) => {
    const tests = incidents.map((incident) => ({
      interval: '1m',
      input_series: seriesOf(usual, incident),
      alert_rule_test: [
        { alertname: incident.alert, eval_time: `${HEALTHY_MINUTES + incident.firesAfter}m`, exp_alerts: [] },
      ],
    }))
    await writeFile(file, stringify({ rule_files: RULES, evaluation_interval: '1m', tests }))
    const said = await promtool('test', 'rules', file).catch((error: Error) => error.message)
    const shown = said.matchAll(/Labels:\{alertname="(\w+)"[^}]*\}\s*Annotations:\{.*?\bpod="([^"]*)"/g)
    return new Map([...shown].map(([, alert = '', pod = '']) => [alert, pod.trim()]))
  })
}

async function usingFile<T>(name: string, use: (file: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-rules-'))
  try {
    return await use(join(folder, name))
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Returns its output; throws it where the exit code is not 0. */
export function promtool(...args: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(requireProgram('promtool'), args, (cause, stdout, stderr) => {
      if (cause === null) resolve(stdout + stderr)
      else reject(new Error(stdout + stderr, { cause }))
    })
  })
}

export async function firesAloneAndResolves(incident: Incident): Promise<void> {
  const end = HEALTHY_MINUTES + incident.minutes
  await play(seriesOf(USUAL, incident), {
    [HEALTHY_MINUTES - 1]: [],
    [HEALTHY_MINUTES + incident.firesAfter]: [incident.alert, ...(incident.also ?? [])],
    [end + incident.resolvedAfter]: [],
  })
}
