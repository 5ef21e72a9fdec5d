/**
 * From a place in a running program to the file that a reader knows: `src/…` or `node_modules/…`, of the sources as of the program
 * that is built from them, by its source maps.
 */
import { existsSync, readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { fileURLToPath } from 'node:url'

type Call = { readonly url: string; readonly lineNumber: number; readonly columnNumber: number }

export function sourcePlaces(): (call: Call) => string {
  const maps = new Map<string, SourceMap | undefined>()
  const mapOf = (url: string) => {
    if (!maps.has(url)) maps.set(url, readMap(url))
    return maps.get(url)
  }
  return ({ url, lineNumber, columnNumber }) => {
    if (!url.startsWith('file:')) return url
    const entry = mapOf(url)?.findEntry(lineNumber, columnNumber)
    return known(entry !== undefined && 'originalSource' in entry ? entry.originalSource : url)
  }
}

function readMap(url: string): SourceMap | undefined {
  const file = `${fileURLToPath(url)}.map`
  return existsSync(file) ? new SourceMap(JSON.parse(readFileSync(file, 'utf8'))) : undefined
}

/** From the last `node_modules/`, or the last `src/`: maps of a program that was moved lead nowhere, and end the same. */
function known(place: string): string {
  return (
    /node_modules\/(?!.*node_modules\/).*$/.exec(place)?.[0] ?? /^.*\/(src\/.*)$/.exec(place)?.[1] ?? place
  )
}
