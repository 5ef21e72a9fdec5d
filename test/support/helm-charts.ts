/** The charts of deploy/helm as Helm renders them, from a copy: Helm writes the packed library beside a chart. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'vitest'
import { fetchProgram } from './fetched-programs.ts'
import { type Manifest, manifestsIn } from './kubernetes-objects.ts'

const root = join(import.meta.dirname, '../..')

/** Helm lives for a fifth of a second: to collect its garbage would take a fifth of that. */
export const HELM_ENV = { ...process.env, GOGC: '400', GOMAXPROCS: '1' }

export type HelmRun = { readonly status: number | null; readonly stdout: string; readonly stderr: string }

export type Charts = Disposable & {
  /** The working folder of Helm; each chart is a folder of it. */
  readonly folder: string
  helm(...args: readonly string[]): HelmRun
  /** As release `rel` in the namespace `shop`; a warning fails the test. */
  rendered(chart: string, args: readonly string[], version?: string): Manifest[]
  /** What Helm says where it refuses; fails where it renders. */
  refusal(chart: string, args: readonly string[], version?: string): string
}

export async function prepareCharts(): Promise<Charts> {
  const program = await fetchProgram('helm')
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-helm-'))
  cpSync(join(root, 'deploy/helm'), folder, { recursive: true, dereference: true })
  for (const chart of ['fencepost', 'example'])
    execFileSync(program, ['dependency', 'build', join(folder, chart)], { stdio: 'ignore' })
  const helm = (...args: readonly string[]): HelmRun => {
    const { status, stdout, stderr } = spawnSync(program, args, {
      cwd: folder,
      env: HELM_ENV,
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
    })
    return { status, stdout, stderr }
  }
  const template = (chart: string, args: readonly string[], version: string) =>
    helm('template', 'rel', chart, '--namespace', 'shop', '--kube-version', version, ...args)
  return {
    folder,
    helm,
    rendered(chart, args, version = '1.37.0') {
      const { status, stdout, stderr } = template(chart, args, version)
      expect([status, stderr.replaceAll(/^(walk|level=).*\n?/gm, '')]).toEqual([0, ''])
      return manifestsIn(stdout)
    },
    refusal(chart, args, version = '1.37.0') {
      const { status, stderr } = template(chart, args, version)
      expect(status, `${args.join(' ')} was rendered`).not.toBe(0)
      return stderr
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}
