/** The charts as they are published: from a registry, and with no path of this repository. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { CHART_REGISTRY, CHARTS, packCharts, publishedManifest } from '../../scripts/charts.ts'
import { hideCheckout } from '../../scripts/hidden-checkout.ts'
import { playChart, pushCharts } from '../../scripts/newcomer-charts.ts'
import { currentVersion } from '../../scripts/version.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { startImageRegistry } from '../support/image-registry.ts'

const root = join(import.meta.dirname, '../..')
const folder = folderOfTests('charts-test')

test('a published chart names the registry of the library, and no path', () => {
  const given = 'dependencies:\n  - name: fencepost-lib\n    repository: file://../fencepost-lib\n'
  expect(publishedManifest(given, 'oci://registry.example/charts')).toBe(
    given.replace('file://../fencepost-lib', '"oci://registry.example/charts"'),
  )
  expect(() => publishedManifest('repository: file://../another', 'oci://a')).toThrow("can't name a path")
})

test('the registry in published charts is the one that the release workflow pushes to', () => {
  const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8')
  // The owner of the repository is fencepost.
  const pushed = /^ {2}CHARTS: (.+)$/m.exec(workflow)?.[1]?.replace(/\$\{\{ .*owner \}\}/, 'fencepost')
  expect(`oci://${pushed}`).toBe(CHART_REGISTRY)
})

test('no chart has the file name of an npm package, whose tarball it would replace in the release', {
  timeout: FETCH_MS_MAX,
}, async () => {
  const beside = mkdtempSync(join(folder, 'tarballs-'))
  const charts = Object.values(await packCharts(beside)).map((file) => basename(file))
  const packages = ['package.json', 'packages/client/package.json', 'packages/saga/package.json'].map(
    (file) => {
      const { name, version } = JSON.parse(readFileSync(join(root, file), 'utf8'))
      // As `npm pack` names it.
      return `${name.replace('@', '').replace('/', '-')}-${version}.tgz`
    },
  )
  expect(charts.toSorted()).toEqual(readdirSync(beside).sort())
  expect(charts.filter((file) => packages.includes(file))).toEqual([])
  const workflow = readFileSync(join(root, '.github/workflows/release.yml'), 'utf8')
  const [, pushed = ''] = /helm push "release\/(\S+)"/.exec(workflow) ?? []
  expect(
    CHARTS.map((chart) => pushed.replace('$chart', chart).replace('$version', currentVersion())),
  ).toEqual(charts)
})

test('pushed to a registry, a newcomer installs from there', { timeout: FETCH_MS_MAX }, async () => {
  await using registry = await startImageRegistry()
  const archives = await packCharts(folder, `oci://${registry.host}/charts`)
  const names = execFileSync('tar', ['-tzf', archives.fencepost], { encoding: 'utf8' })
  for (const file of ['values.schema.json', 'charts/fencepost-lib/Chart.yaml', 'README.md'])
    expect(names.split('\n')).toContain(`fencepost/${file}`)
  const manifest = parse(
    execFileSync('tar', ['-xzOf', archives.fencepost, 'fencepost/Chart.yaml'], { encoding: 'utf8' }),
  )
  expect(manifest).toMatchObject({ version: currentVersion(), appVersion: currentVersion() })
  const pushed = await pushCharts(registry.host, Object.values(archives))
  expect(pushed.map((name) => /charts\/(.+)@sha256:[0-9a-f]{64}$/.exec(name)?.[1])).toEqual([
    'fencepost-lib',
    'fencepost',
  ])
  const said: string[] = []
  await playChart(registry.host, folder, hideCheckout(), (line) => said.push(line))
  expect(said).toHaveLength(3)
})
