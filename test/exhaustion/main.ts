/**
 * `npm run campaign -- exhaustion`: each way of exhausting a sidecar, for two minutes, plotted into
 * docs/pictures/exhaustion.svg.
 *
 *   --seconds N       for each case (default 120)
 *   --cases a,b       only these: idle, waiters, slow, readers
 *   --no-plot         leaves the picture as it is
 *
 * Linux only: memory and descriptors are read from /proc. Ends with 1 where they grew by more than a tenth; the last
 * line is JSON for programs. The ratio of p99 is reported, not judged: on a machine with other work it says little.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { endInTime } from '../support/end-of-program.ts'
import { CASES } from './cases.ts'
import { plot } from './plot.ts'
import { type CaseReport, runCase } from './run.ts'

const GROWTH_MAX = 1.1

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '120' },
    cases: { type: 'string', default: CASES.map(({ name }) => name).join(',') },
    'no-plot': { type: 'boolean', default: false },
  },
})

const reports: CaseReport[] = []
const chosen = values.cases.split(',')
for (const one of CASES.filter(({ name }) => chosen.includes(name))) {
  console.log(one.sentence(one.count))
  const report = await runCase(one, one.count, Number(values.seconds))
  const { samples: _, ...told } = report
  console.log(JSON.stringify(told))
  reports.push(report)
}
if (!values['no-plot']) {
  const sentences = new Map(CASES.map(({ name, sentence, count }) => [name, sentence(count)]))
  writeFileSync(join(import.meta.dirname, '../../docs/pictures/exhaustion.svg'), plot(reports, sentences))
}
const grown = reports.filter(
  ({ rssGrowth, descriptorGrowth }) => rssGrowth > GROWTH_MAX || descriptorGrowth > GROWTH_MAX,
)
console.log(
  JSON.stringify({
    cases: reports.map(({ name, count, seconds, rssGrowth, descriptorGrowth, p99 }) => ({
      name,
      count,
      seconds,
      rssGrowth,
      descriptorGrowth,
      p99Ratio: p99.ratio,
    })),
    grown: grown.map(({ name }) => name),
  }),
)
process.exitCode = grown.length === 0 && reports.length > 0 ? 0 : 1
endInTime()
