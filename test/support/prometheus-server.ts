/**
 * A real Prometheus for one test: scrapes its targets every second, evaluates rules, answers queries.
 *
 *     await using prometheus = await startPrometheus({ jobs: [{ name: 'fencepost', targets: [sidecar.admin] }] })
 *     await prometheus.query('up')
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { eventually } from './eventually.ts'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

type ScrapeJob = {
  readonly name: string
  /** `http://host:port` */
  readonly targets: readonly string[]
}

export type PrometheusOptions = {
  readonly jobs: readonly ScrapeJob[]
  /** Further ones, as Prometheus takes them. */
  readonly scrapeConfigs?: readonly object[]
  /** Paths of rules files. */
  readonly rules?: readonly string[]
}

type Series = {
  readonly metric: Readonly<Record<string, string>>
  readonly values: readonly (readonly [atSeconds: number, value: number])[]
}

export type PrometheusServer = AsyncDisposable & {
  readonly url: string
  /** The value of each series now. */
  query(expr: string): Promise<Series[]>
  range(expr: string, fromSeconds: number, toSeconds: number, stepSeconds: number): Promise<Series[]>
  /** Waits until a query has a result. */
  until(expr: string, withinMs?: number): Promise<Series[]>
}

export async function startPrometheus({
  jobs,
  scrapeConfigs: further = [],
  rules = [],
}: PrometheusOptions): Promise<PrometheusServer> {
  const program = requireProgram('prometheus')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-prometheus-'))
  const config = join(folder, 'prometheus.yml')
  const scrapeConfigs = jobs.map(({ name, targets }) => ({
    job_name: name,
    static_configs: [
      { targets: targets.map((target) => target.replace(/^http:\/\//, '')), labels: { namespace: 'shop' } },
    ],
  }))
  const global = { scrape_interval: '1s', scrape_timeout: '1s', evaluation_interval: '1s' }
  await writeFile(
    config,
    stringify({ global, rule_files: rules, scrape_configs: [...scrapeConfigs, ...further] }),
  )
  const port = await freePort()
  const url = `http://127.0.0.1:${port}`
  const process = new TestProcess(
    program,
    [
      `--config.file=${config}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ],
    { name: 'prometheus', cwd: folder },
  )
  const ask = async (path: string, parameters: Record<string, string>): Promise<Series[]> => {
    const response = await fetch(`${url}/api/v1/${path}?${new URLSearchParams(parameters)}`)
    const body = (await response.json()) as { status: string; error?: string; data: { result: Raw[] } }
    if (body.status !== 'success') throw new Error(`${parameters.query}: ${body.error}`)
    return body.data.result.map(({ metric, value, values }) => ({
      metric,
      values: (values ?? (value === undefined ? [] : [value])).map(
        ([at, text]) => [at, Number(text)] as const,
      ),
    }))
  }
  const query = (expr: string) => ask('query', { query: expr })
  try {
    await process.http(`${url}/-/ready`)
  } catch (cause) {
    await process.end({ signal: 'SIGKILL' })
    throw cause
  }
  return {
    url,
    query,
    range: (expr, from, to, step) =>
      ask('query_range', { query: expr, start: String(from), end: String(to), step: String(step) }),
    until: (expr, withinMs = 30_000) =>
      eventually(
        `a result of ${expr}`,
        async () => {
          const result = await query(expr)
          return result.length > 0 ? result : undefined
        },
        { withinMs, everyMs: 200 },
      ),
    [Symbol.asyncDispose]: async () => {
      await process.end()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

type Raw = {
  readonly metric: Record<string, string>
  readonly value?: readonly [number, string]
  readonly values?: readonly (readonly [number, string])[]
}
