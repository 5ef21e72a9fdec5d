/** docs/operations/one-key.md as a program: its lines for a shell and for a cluster, and the words of each command as a shell reads them. */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const ONE_KEY_PAGE = readFileSync(
  join(import.meta.dirname, '../../docs/operations/one-key.md'),
  'utf8',
)

/** Each `fencepost …` line once, in the order of the page. */
export const COMMAND_LINES: readonly string[] = [
  ...new Set(
    [...ONE_KEY_PAGE.matchAll(/`(fencepost [^`]+)`|^ {4}(fencepost [^\n#]*)/gm)].map(([, span, block]) =>
      (span ?? block ?? '').trim(),
    ),
  ),
]

/** Each line for a Kubernetes cluster, in the order of the page: without what it only remarks behind `#`. */
export const CLUSTER_LINES: readonly string[] = [
  ...ONE_KEY_PAGE.matchAll(/`((?:kubectl|helm) [^`]+)`|^ {4}((?:kubectl|helm) [^\n#]*)/gm),
].map(([, span, block]) => (span ?? block ?? '').trim())

/** The lines that set what the commands use. */
const EXPORTS: readonly string[] = [...ONE_KEY_PAGE.matchAll(/^ {4}(export .*)$/gm)].map(([, line]) => line!)

/**
 * The words that the program gets.
 *
 * @param forThisReader replaces what is another for each reader: addresses, accounts
 */
export function wordsOf(
  line: string,
  env: Readonly<Record<string, string>>,
  forThisReader: (script: string) => string,
): readonly string[] {
  const script = [...EXPORTS, 'fencepost() { printf "%s\\0" "$@"; }', line].join('\n')
  const words = execFileSync('sh', ['-euc', forThisReader(script)], { env: { ...env }, encoding: 'utf8' })
  return words.split('\0').slice(0, -1)
}

/** The file with tokens as the page shows it, each token long enough: `…` stands for the rest. */
export function tokensFileOfPage(): { readonly content: string; readonly tokenOf: (name: string) => string } {
  const [, block = ''] = /^ {4}# \/run\/secrets\/operators:.*\n((?: {4}\S.*\n)+)/m.exec(ONE_KEY_PAGE) ?? []
  const rows = block
    .trim()
    .split('\n')
    .map((line) => line.trim().replace('…', '0'.repeat(32)).split(/\s+/))
  return {
    content: rows.map((row) => `${row.join(' ')}\n`).join(''),
    tokenOf: (name) => rows.find(([first]) => first === name)?.[2] ?? '',
  }
}

/** The settings that open the listener, by their names. */
export const SETTINGS_OF_PAGE: Readonly<Record<string, string>> = Object.fromEntries(
  [...ONE_KEY_PAGE.matchAll(/^ {4}(FENCEPOST_OPERATOR_\w+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
)

/** The request that the page describes. */
export const REQUEST_OF_PAGE = /^ {4}\{\n(?: {6}.*\n)+ {4}\}$/m.exec(ONE_KEY_PAGE)?.[0] ?? ''
