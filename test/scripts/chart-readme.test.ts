import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { CHARTS, chartReadme } from '../../scripts/chart-readme.ts'

test.each(CHARTS)('the README of the chart %s is what `npm run generate -- charts` writes', (chart) => {
  const file = join(import.meta.dirname, '../../deploy/helm', chart, 'README.md')
  expect(readFileSync(file, 'utf8')).toBe(chartReadme(chart))
})
