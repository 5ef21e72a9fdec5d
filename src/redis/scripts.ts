/**
 * The scripts that a node executes, and how they are called.
 *
 * Lua has no include on Redis, and a batch of commands must be one call, so the files of the batch are fragments in a fixed order: a
 * function with the common readers, the record, one rule per command and their dispatch by frame; then the loop over a
 * batch, which calls that function only where it must.
 */

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { NEEDED_AS_LUA } from './commands.ts'
import {
  CLUSTER_KEY,
  FOUNDER_KEY,
  HEARTBEAT_KEY,
  INCARNATION_KEY,
  NOTHING_KEY,
  QUARANTINE_KEY,
  REJOIN_KEY,
} from './keys.ts'

const RULES = [
  'prelude',
  'record',
  'claim',
  'renew',
  'complete',
  'release',
  'read',
  'inspect',
  'adopt',
  'dispatch',
] as const

export type Script = { readonly source: string; readonly sha1: string }

export function loadBatchScript(): Script {
  const source = [
    'local function rules(NOW, NOW_DIGITS, TOO_FAR_AHEAD, FRAMES, NO_NEW_CLAIMS)',
    ...RULES.map(luaOf),
    'end',
    luaOf('batch'),
  ].join('\n')
  return { source, sha1: sha1Of(source) }
}

/** One of the files beside this one. */
export function luaOf(name: string): string {
  return readFileSync(new URL(`./lua/${name}.lua`, import.meta.url), 'utf8')
}

function sha1Of(source: string): string {
  return createHash('sha1').update(source).digest('hex')
}

export type OwnScript = (client: Redis, ...given: readonly (string | number)[]) => Promise<unknown>

/**
 * A script beside the batch: called by its digest, and sent whole where the node does not know it.
 *
 * @param keys how many of the first arguments are keys
 */
export function ownScript(source: string, keys: number): OwnScript {
  const sha1 = sha1Of(source)
  return async (client, ...given) => {
    try {
      return await client.evalsha(sha1, keys, ...given)
    } catch (cause) {
      // A node that restarted or flushed its scripts: it did nothing.
      if (!(cause instanceof Error) || !cause.message.startsWith('NOSCRIPT')) throw cause
      return client.eval(source, keys, ...given)
    }
  }
}

const MEMBERSHIP = luaOf('membership').replace('local COMMANDS = {}', `local COMMANDS = ${NEEDED_AS_LUA}`)
const MEMBERSHIP_KEYS = [
  INCARNATION_KEY,
  QUARANTINE_KEY,
  CLUSTER_KEY,
  FOUNDER_KEY,
  REJOIN_KEY,
  NOTHING_KEY,
  HEARTBEAT_KEY,
]
const membership = ownScript(MEMBERSHIP, MEMBERSHIP_KEYS.length)

/**
 * One act of `lua/membership.lua` on one node.
 *
 * @param runId of the process that is meant; on another one the call has no effect
 * @throws Error RUN_CHANGED where another process answers by now
 */
export function callMembership(
  client: Redis,
  runId: string,
  [act, ...args]: readonly [act: string, ...args: string[]],
): Promise<unknown> {
  return membership(client, ...MEMBERSHIP_KEYS, act, runId, ...args)
}
