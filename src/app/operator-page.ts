/** The files of the operator's page, read once at the start: beside the built program, or from `dist/` where the sources run. */

import { existsSync, readFileSync } from 'node:fs'
import type { PageFileName, PageFiles } from '../http/operator/page.ts'

const FOLDERS = ['../page/', '../../dist/page/']

const TYPES: Readonly<Record<PageFileName, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** Undefined where the page was never built. */
export function readPage(): PageFiles | undefined {
  const folder = FOLDERS.map((path) => new URL(path, import.meta.url)).find((url) =>
    existsSync(new URL('app.js', url)),
  )
  if (folder === undefined) return undefined
  const names = Object.keys(TYPES) as PageFileName[]
  const files = names.map((name) => [name, { type: TYPES[name], body: readFileSync(new URL(name, folder)) }])
  return Object.fromEntries(files) as PageFiles
}
