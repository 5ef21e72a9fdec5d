/** A page of the documents as a scenario: the lines that it runs, and what a reader must see. */
import type { PageLine } from '../../support/page-lines.ts'
import type { Reader } from '../reader.ts'
import type { Scenario } from '../scenario.ts'

export type PageScenario = Pick<Scenario, 'name' | 'what'> & {
  /** What it runs; less than that is a fault. */
  readonly lines: readonly PageLine[]
  readonly read: (reader: Reader) => Promise<string>
}

export function scenarioOf({ name, what, lines, read }: PageScenario): Scenario {
  return {
    name,
    what,
    failedMax: 0,
    quiet: true,
    onPages: true,
    run: async ({ reader }) => {
      await reader.installed()
      const found = await read(reader)
      const left = lines.filter(({ text }) => !reader.ran.has(text))
      if (left.length > 0) throw new Error(`not run: ${left.map(({ text }) => text).join('; ')}`)
      return found
    },
  }
}

/** @returns the output */
export function mustSee(output: string, ...wanted: readonly (string | RegExp)[]): string {
  for (const one of wanted)
    if (typeof one === 'string' ? !output.includes(one) : !one.test(output))
      throw new Error(`${one} was to be seen in:\n${output}`)
  return output
}
