/**
 * The imports of a TypeScript source, and its code without comments and strings, for tests of the sources themselves.
 * Reads text, not a syntax tree: good enough for formatted sources.
 */

export type Import = {
  readonly specifier: string
  /** `import type` and `export type`: gone at run time. */
  readonly typeOnly: boolean
  /** `export … from`. */
  readonly reExport: boolean
}

/** Of `import … from '…'`, `export … from '…'`, `import '…'` and `import('…')`. */
export function importsOf(source: string): Import[] {
  const text = withoutComments(source)
  const statements = text.matchAll(/^(import|export)(\s+type)?\s[^'"`;=()]*?\bfrom\s+['"]([^'"]+)['"]/gm)
  const bare = text.matchAll(/^import\s+['"]([^'"]+)['"]/gm)
  const dynamic = text.matchAll(/\b(?:import|require)\(\s*['"]([^'"]+)['"]/g)
  return [
    ...[...statements].map(([, word, type, specifier]) => ({
      specifier: specifier as string,
      typeOnly: type !== undefined,
      reExport: word === 'export',
    })),
    ...[...bare, ...dynamic].map(([, specifier]) => ({
      specifier: specifier as string,
      typeOnly: false,
      reExport: false,
    })),
  ]
}

/** The source without comments and the contents of quoted strings; lines keep their numbers. */
export function codeOf(source: string): string {
  return withoutComments(source).replace(/'(\\.|[^'\\\n])*'/g, "''")
}

export function linesWith(pattern: RegExp, text: string): string[] {
  return text
    .split('\n')
    .flatMap((line, index) => (pattern.test(line) ? [`${index + 1}: ${line.trim()}`] : []))
}

/** Strings are matched too, so that the `//` of an address does not begin a comment. */
function withoutComments(source: string): string {
  const token = /\/\/.*|\/\*[\s\S]*?\*\/|'(\\.|[^'\\\n])*'|"(\\.|[^"\\\n])*"|`(\\.|[^`\\])*`/g
  return source.replace(token, (found) =>
    found.startsWith('//') || found.startsWith('/*') ? found.replace(/[^\n]/g, '') : found,
  )
}
