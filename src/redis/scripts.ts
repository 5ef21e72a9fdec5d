/**
 * The one script that a node executes, put together from the Lua files beside this one.
 *
 * Lua has no include on Redis, and a batch of commands must be one call, so the files are fragments in a fixed order:
 * what all read, the record, one function a command, and the loop over a batch.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

const FRAGMENTS = [
  'prelude',
  'record',
  'claim',
  'renew',
  'complete',
  'release',
  'read',
  'show',
  'adopt',
  'batch',
] as const

export type Script = { readonly source: string; readonly sha1: string }

export function loadBatchScript(): Script {
  const source = FRAGMENTS.map((name) =>
    readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8'),
  ).join('\n')
  return { source, sha1: createHash('sha1').update(source).digest('hex') }
}
