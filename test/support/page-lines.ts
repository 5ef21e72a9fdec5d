/**
 * The `kubectl` and `helm` lines of the documents: those of their blocks of code, with what continues them, and those in the middle of
 * a sentence. `test/cluster/page-lines.test.ts` sees to it that each is run in a cluster, or that it is said why not.
 */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '../..')
const COMMAND = /(?:^|[\s(;{'])(?:kubectl|helm) /

export type PageLine = {
  /** As it stands there, without a remark behind `#`, and on one line. */
  readonly text: string
  readonly page: string
}

/** Those that a reader has before them. docs/internals speaks of the repository itself. */
export const PAGES: readonly string[] = globSync(
  ['README.md', 'docs/**/*.md', 'deploy/**/*.md', 'examples/**/*.md', 'packages/*/README.md'],
  {
    cwd: root,
    exclude: (path) => path.includes('node_modules') || path.startsWith('docs/internals'),
  },
).sort()

/** A line goes on behind a backslash, and until its quotes are closed. */
function logicalLines(block: string): string[] {
  const lines: string[] = []
  let open = ''
  for (const line of block.split('\n')) {
    open += line
    if (open.endsWith('\\')) open = open.slice(0, -1)
    else if ((open.match(/'/g) ?? []).length % 2 === 1) open += '\n'
    else {
      lines.push(open)
      open = ''
    }
  }
  return open === '' ? lines : [...lines, open]
}

const withoutRemark = (line: string) => line.replace(/\s+#\s.*$/, '')
const onOneLine = (text: string) => text.replaceAll(/\s+/g, ' ').trim()

/** The blocks of a page, each without what it is indented by. */
export function blocksIn(markdown: string): string[] {
  const fenced = [...markdown.matchAll(/^( *)```\w*\n(.*?)^ *```$/gms)].map(([, indent = '', block = '']) =>
    block.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
  )
  const indented = [...withoutFences(markdown).matchAll(/(?<=\n\n)(?: {4}.*\n+)+/g)].map(([block]) =>
    block.replaceAll(/^ {4}/gm, ''),
  )
  return [...fenced, ...indented]
}

function withoutFences(markdown: string): string {
  return markdown.replaceAll(/^( *)```\w*\n.*?^ *```$/gms, '')
}

/** Each once, in the order of blocks and then sentences. */
export function commandsIn(markdown: string): string[] {
  const inBlocks = blocksIn(markdown)
    .flatMap(logicalLines)
    .filter((line) => COMMAND.test(line))
    .map((line) => onOneLine(withoutRemark(line)))
  const inSentences = [
    ...withoutFences(markdown).matchAll(/`((?:kubectl|helm)\s(?:[^`\n]|\n(?!\n))+)`/g),
  ].map(([, span = '']) => onOneLine(span))
  return [...new Set([...inBlocks, ...inSentences])]
}

export function readPage(page: string): string {
  return readFileSync(join(root, page), 'utf8')
}

/** Each text once, of the first page that has it. */
export function allPageLines(): PageLine[] {
  const lines = new Map<string, PageLine>()
  for (const page of PAGES)
    for (const text of commandsIn(readPage(page))) if (!lines.has(text)) lines.set(text, { text, page })
  return [...lines.values()]
}

/** The one line of a page that begins so. */
export function lineOf(page: string, start: string): PageLine {
  const found = commandsIn(readPage(page)).filter((text) => text.startsWith(start))
  if (found.length !== 1)
    throw new Error(`${page} has ${found.length} lines that begin with \`${start}\`, and one is meant`)
  return { text: found[0] as string, page }
}

/** The one block of a page that has a line which begins so: as it stands, and its lines. */
export function blockOf(page: string, start: string): { script: string; lines: readonly PageLine[] } {
  const found = blocksIn(readPage(page)).filter((block) =>
    logicalLines(block).some((line) => line.trimStart().startsWith(start)),
  )
  const [script] = found
  if (script === undefined || found.length > 1)
    throw new Error(`${page} has ${found.length} blocks with a line \`${start}\`, and one is meant`)
  const lines = logicalLines(script).filter((line) => COMMAND.test(line))
  return { script, lines: lines.map((line) => ({ text: onOneLine(withoutRemark(line)), page })) }
}

/** Code in a sentence of the page: what stands in backquotes right behind these words. */
export function codeBehind(page: string, words: string): string {
  const [, ...found] = onOneLine(readPage(page)).split(`${words}\``)
  if (found.length !== 1)
    throw new Error(`${page} has code behind "${words}" ${found.length} times, and one is meant`)
  return found[0]?.split('`')[0] as string
}
