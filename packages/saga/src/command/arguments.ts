/** The arguments of `fencepost-saga`, read by a table of its commands, of which the help is made, too. */
import { parseArgs } from 'node:util'

type Option = {
  /** What stands for its value in the help; a switch has none. */
  readonly value?: string
  readonly says: string
}

export type Options = Readonly<Record<string, Option>>

export type Row = {
  /** Besides options, such as `<id>`; `<ids...>` are one and more. */
  readonly takes?: string
  readonly says: string
  readonly options?: Options
}

export type Given = Readonly<Record<string, string | boolean | undefined>>

/** What a command takes of its process. */
export type Io = {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly stdout: { write(text: string): unknown }
  readonly stderr: { write(text: string): unknown }
  /** Whole file as text. */
  readonly readFile: (path: string) => string
  /** The process is asked to end. */
  readonly stopped: () => Promise<void>
}

/** A sentence about the command line. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A command has one or two words. @throws UsageError */
export function readArguments(
  args: readonly string[],
  rows: Readonly<Record<string, Row>>,
  common: Options,
): { readonly command: string; readonly given: Given; readonly rest: readonly string[] } {
  const own = Object.values(rows).map(({ options = {} }) => options)
  const every = Object.assign({}, common, ...own) as Options
  const kinds = Object.entries(every).map(
    ([name, { value }]) => [name, { type: value === undefined ? 'boolean' : 'string' }] as const,
  )
  const { values, positionals } = read(args, Object.fromEntries(kinds))
  const [first = '', second] = positionals
  const words = `${first} ${second}` in rows ? 2 : 1
  const command = positionals.slice(0, words).join(' ')
  const row = rows[command]
  if (values.help === true || row === undefined) {
    if (first === '' || values.help === true) return { command: 'help', given: values, rest: positionals }
    throw new UsageError(`there is no command ${JSON.stringify(positionals.join(' '))}`)
  }
  const foreign = Object.keys(values).find((name) => !(name in common) && !(name in (row.options ?? {})))
  if (foreign !== undefined) throw new UsageError(`${command} takes no --${foreign}`)
  const rest = positionals.slice(words)
  const { takes = '' } = row
  const fits = takes === '' ? rest.length === 0 : takes.includes('...') ? rest.length > 0 : rest.length === 1
  if (!fits) throw new UsageError(`${command} takes ${takes === '' ? 'no further argument' : takes}`)
  return { command, given: values, rest }
}

function read(args: readonly string[], options: Readonly<Record<string, { type: 'string' | 'boolean' }>>) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true })
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error))
  }
}

/** Of all commands, or of those that begin with these words. */
export function helpOf(
  name: string,
  rows: Readonly<Record<string, Row>>,
  common: Options,
  words: string,
): string {
  const shown = Object.entries(rows).filter(
    ([command]) => command === words || command.startsWith(`${words} `),
  )
  const among = shown.length === 0 ? Object.entries(rows) : shown
  const single = shown.length === 1 ? among[0] : undefined
  const title = single === undefined ? 'COMMAND' : [single[0], single[1].takes].filter(Boolean).join(' ')
  const commands = among.map(
    ([command, { takes = '', says }]) => [`${command} ${takes}`.trim(), says] as const,
  )
  const own = single?.[1].options ?? {}
  return [
    `Usage: ${name} ${title} [options]`,
    single === undefined ? tableOf(commands) : `${single[1].says}`,
    ...(Object.keys(own).length === 0 ? [] : [tableOf(linesOf(own))]),
    tableOf(linesOf(common)),
  ]
    .join('\n\n')
    .concat('\n')
}

function linesOf(options: Options): (readonly [string, string])[] {
  return Object.entries(options).map(([name, { value, says }]) => [
    `--${name}${value === undefined ? '' : ` ${value}`}`,
    says,
  ])
}

function tableOf(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([left]) => left.length))
  return rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}`).join('\n')
}
