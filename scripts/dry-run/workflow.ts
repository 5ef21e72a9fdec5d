/**
 * The steps of .github/workflows/release.yml in the order in which they run, as the dry run of a release reads them.
 *
 * Owns what of a workflow the dry run understands, and refuses the rest: a key that it does not know could decide whether a step runs.
 * It carries nothing out: scripts/dry-run/runner.ts does.
 *
 * Source: https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-syntax
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'

const root = join(import.meta.dirname, '../..')
export const RELEASE_WORKFLOW = '.github/workflows/release.yml'

type Variables = Readonly<Record<string, string>>
export type Step = {
  readonly job: string
  /** As GitHub shows it: its name, or the action, or the first line of its script. */
  readonly name: string
  readonly id: string | undefined
  readonly env: Variables
} & (
  | { readonly kind: 'action'; readonly action: string; readonly commit: string; readonly inputs: Variables }
  | { readonly kind: 'script'; readonly script: string }
)

type StepText = {
  readonly id?: string
  readonly name?: string
  readonly uses?: string
  readonly run?: string
  readonly with?: Readonly<Record<string, string | number | boolean>>
  readonly env?: Variables
}
type JobText = {
  readonly needs?: string | readonly string[]
  readonly uses?: string
  readonly steps?: readonly StepText[]
}
type WorkflowText = { readonly env?: Variables; readonly jobs: Readonly<Record<string, JobText>> }

const STEP_KEYS = ['id', 'name', 'uses', 'run', 'with', 'env']
const JOB_KEYS = ['needs', 'uses', 'steps', 'runs-on', 'timeout-minutes', 'environment', 'permissions']

/** @param read gives the text of a workflow by its path in the repository */
export function stepsOf(file = RELEASE_WORKFLOW, read = readWorkflow): readonly Step[] {
  const { env = {}, jobs } = parse(read(file)) as WorkflowText
  const before = new Set<string>()
  return Object.entries(jobs).flatMap(([job, text]) => {
    refuseUnknown(`${file}: job ${job}`, text, JOB_KEYS)
    const late = [text.needs ?? []].flat().filter((needed) => !before.has(needed))
    if (late.length > 0)
      throw new Error(`${file}: write the job ${late.join(', ')} before ${job}, which needs it`)
    before.add(job)
    // A called workflow gets no variables of its caller.
    if (text.uses !== undefined)
      return stepsOf(text.uses.replace(/^\.\//, ''), read).map((step) => ({ ...step, job }))
    return (text.steps ?? []).map((step) => stepOf(`${file}: job ${job}`, job, step, env))
  })
}

function stepOf(where: string, job: string, text: StepText, shared: Variables): Step {
  refuseUnknown(`${where}, step ${text.name ?? text.uses ?? text.run}`, text, STEP_KEYS)
  const common = { job, id: text.id, env: { ...shared, ...text.env } }
  if (text.run !== undefined) {
    const [firstLine = ''] = text.run.split('\n')
    return { ...common, kind: 'script', name: text.name ?? firstLine, script: text.run }
  }
  const [action = '', commit = ''] = (text.uses ?? '').split('@')
  const inputs = Object.entries(text.with ?? {}).map(([key, value]) => [key, String(value)])
  return {
    ...common,
    kind: 'action',
    name: text.name ?? action,
    action,
    commit,
    inputs: Object.fromEntries(inputs),
  }
}

function refuseUnknown(where: string, text: object, known: readonly string[]): void {
  const unknown = Object.keys(text).filter((key) => !known.includes(key))
  if (unknown.length > 0)
    throw new Error(
      `${where}: the dry run does not know "${unknown.join('", "')}": teach it to scripts/dry-run/workflow.ts`,
    )
}

/** Replaces each `${{ name }}`. @throws where a name has no value */
export function evaluated(text: string, values: Variables): string {
  return text.replaceAll(/\$\{\{ (\S+) \}\}/g, (_, name: string) => {
    const value = values[name]
    if (value === undefined)
      throw new Error(
        `the dry run has no value for \${{ ${name} }}: give it one in scripts/dry-run/runner.ts`,
      )
    return value
  })
}

/** Of a POSIX shell; they begin no command that a table could name. */
const WORDS =
  /^(?:if|then|else|elif|fi|for|do|done|while|case|esac|in|test|cd|echo|export|set|true|false|:|\[)$/

/**
 * The commands of a script, with their arguments as they are written. It is no parser of the shell: it knows what the workflows use,
 * and a word too many makes a table incomplete, which shows.
 */
export function commandsOf(script: string): readonly string[] {
  const lines = script
    .replaceAll(/\\\n\s*/g, '')
    .split('\n')
    .filter((line) => !/^\s*#/.test(line))
  return (
    lines
      // The pattern of a `case` stands before what it leads to.
      .map((line) => line.replace(/^\s*case .* in /, '').replaceAll(/(^|;; )\S+\) /g, '$1'))
      .flatMap((line) => line.split(/;;?|&&|\|\|?|\$\(/))
      .map((part) =>
        part
          .trim()
          .replace(/^(?:(?:do|then|else|if|elif|while|until|!) )*(?:[A-Za-z_]\w*=(?:"[^"]*"|\S*) *)*"?/, ''),
      )
      .filter((part) => /^[a-z]/.test(part) && !WORDS.test(part.split(' ')[0] as string))
  )
}

function readWorkflow(file: string): string {
  return readFileSync(join(root, file), 'utf8')
}
