/**
 * At which row of `node-faults.ts` a node is that answered with an error. Source: the error prefixes of Redis 7 (`server.c`).
 */

import { type NodeFault, type Trouble, troubleOf } from '../node-faults.ts'

/** By how an error of the server begins. */
const ANSWERS: readonly (readonly [RegExp, NodeFault])[] = [
  [/^NOAUTH\b/, 'no_password'],
  [/^WRONGPASS\b|^ERR invalid password/, 'wrong_password'],
  [/^NOPERM\b/, 'no_permission'],
  [/^RENAMED\b/, 'no_command'],
  [/DB index is out of range/, 'no_database'],
  [/^DENIED\b/, 'protected_mode'],
  [/max number of clients/, 'max_clients'],
  [/^(LOADING|MASTERDOWN)\b/, 'loading'],
  [/^BUSY\b/, 'busy'],
  [/^WRONGTYPE\b/, 'wrong_type'],
  [/^READONLY\b/, 'replica'],
  [/^MISCONF\b/, 'cannot_save'],
  [/^NOREPLICAS\b/, 'few_replicas'],
]

/** What a node answered in place of what it was asked for. */
export function answerFault(cause: unknown, other: NodeFault = 'error'): Trouble {
  if (!(cause instanceof Error)) return troubleOf(other, String(cause))
  // Where the answer came before the question, the client library wraps it.
  const message = /Last reply: (?:\w*Error: )?(.*)/s.exec(cause.message)?.[1] ?? cause.message
  if (/RESP type|Protocol error/.test(message)) return troubleOf('not_redis')
  // Words of the client library, which gave the command up.
  if (/enableOfflineQueue|Connection is closed|Command aborted/.test(message)) return troubleOf('lost')
  if (message.startsWith('no answer')) return troubleOf('silent')
  const fault = ANSWERS.find(([begins]) => begins.test(message))?.[1] ?? other
  return fault === 'replica' ? troubleOf(fault, 'slave') : troubleOf(fault, firstSentence(message))
}

function firstSentence(message: string): string {
  return (
    message
      .split(/\.?\r?\n|\.\s|\.$| script: /, 1)[0]
      ?.replace(/^RENAMED /, '')
      .trim() ?? ''
  )
}
