/**
 * The one script that a node executes, put together from the Lua files beside this one.
 *
 * Lua has no include on Redis, and a batch of commands must be one call, so the files are fragments in a fixed order: a
 * function with the common readers, the record, one rule per command and their dispatch by frame; then the loop over a
 * batch, which calls that function only where it must.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'

const RULES = [
  'prelude',
  'record',
  'claim',
  'renew',
  'complete',
  'release',
  'read',
  'show',
  'adopt',
  'dispatch',
] as const

export type Script = { readonly source: string; readonly sha1: string }

export function loadBatchScript(): Script {
  const source = [
    'local function rules(NOW, NOW_DIGITS, TOO_FAR_AHEAD, FRAMES, NO_NEW_CLAIMS)',
    ...RULES.map(fragment),
    'end',
    fragment('batch'),
  ].join('\n')
  return { source, sha1: createHash('sha1').update(source).digest('hex') }
}

function fragment(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8')
}
