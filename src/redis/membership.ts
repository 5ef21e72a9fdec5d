/** One act of `lua/membership.lua` on one node. */

import { readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'
import { NEEDED_AS_LUA } from './commands.ts'
import {
  CLUSTER_KEY,
  ENROLLER_KEY,
  EPOCH_KEY,
  FOUNDER_KEY,
  NOTHING_KEY,
  PULSE_KEY,
  QUARANTINE_KEY,
} from './keys.ts'
import { ownScript } from './own-script.ts'

const SOURCE = readFileSync(new URL('./lua/membership.lua', import.meta.url), 'utf8').replace(
  'local COMMANDS = {}',
  `local COMMANDS = ${NEEDED_AS_LUA}`,
)
const KEYS = [EPOCH_KEY, QUARANTINE_KEY, CLUSTER_KEY, FOUNDER_KEY, ENROLLER_KEY, NOTHING_KEY, PULSE_KEY]
const call = ownScript(SOURCE, KEYS.length)

/**
 * @param runId of the process that is meant; on another one the call has no effect
 * @throws Error RUN_CHANGED where another process answers by now
 */
export function callMembership(
  client: Redis,
  runId: string,
  [act, ...args]: readonly [act: string, ...args: string[]],
): Promise<unknown> {
  return call(client, ...KEYS, act, runId, ...args)
}
