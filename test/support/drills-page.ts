/** docs/operations/drills.md as a program: its commands, block by block, and what must be seen after each. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type DrillStep = {
  readonly heading: string
  readonly commands: string
  /** Lines of its output, in any order. `…` stands for anything within a line, and each is a part of one. */
  readonly seen: readonly string[]
}

const page = readFileSync(join(import.meta.dirname, '../../docs/operations/drills.md'), 'utf8')

const all: readonly DrillStep[] = page.split(/^##+ /m).flatMap((section) => {
  const heading = section.split('\n', 1)[0] ?? ''
  return [...section.matchAll(/^```sh\n(.*?)^```\n(.*?)(?=^```sh\n|(?![\s\S]))/gms)].map(
    ([, commands = '', rest = '']) => ({
      heading,
      commands,
      seen: (/^```text\n(.*?)^```/ms.exec(rest)?.[1] ?? '').split('\n').filter((line) => line !== ''),
    }),
  )
})

/** What takes the place of the functions for processes. */
export const KUBERNETES_STEPS = all.filter(({ heading }) => heading === 'Nodes in Kubernetes')
export const DRILL_STEPS = all.filter((step) => !KUBERNETES_STEPS.includes(step))

/** Those of the expected lines that the output lacks. */
export function missingIn(output: string, { seen }: DrillStep): readonly string[] {
  return seen.filter((line) => !new RegExp(line.split('…').map(escaped).join('.*')).test(output))
}

const escaped = (text: string) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
