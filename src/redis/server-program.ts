/**
 * Which program answers at a node's address, and whether it can be a node at all, whatever it is set to.
 *
 * Others speak Redis' protocol as well: stores of their own design, proxies, stand-ins for tests. What a node promises rests on how Redis and Valkey
 * carry out a script, expire a key, keep their file and name their run. So another program is refused, and not tried.
 * Owns the fields of INFO that tell. What a node of the right program must be set to is `inspection.ts`.
 */

import type { Redis } from 'ioredis'
import { type Trouble, troubleOf } from '../core/node-faults.ts'

/** A field of a reply to INFO; empty where it has none. */
export type InfoField = (name: string) => string

/** Each line is `name:value\r\n`. A poll reads a dozen of 150 lines, so the text stays one. */
export function fieldsOf(info: string): InfoField {
  return (name) => {
    const isFirst = info.startsWith(`${name}:`)
    const lineBefore = isFirst ? -1 : info.indexOf(`\n${name}:`)
    if (lineBefore < 0 && !isFirst) return ''
    const begin = lineBefore + name.length + 2
    const end = info.indexOf('\n', begin)
    const value = info.slice(begin, end < 0 ? undefined : end)
    return value.endsWith('\r') ? value.slice(0, -1) : value
  }
}

/** Valkey says in `redis_version` which Redis its commands are those of. */
export function serverOf(field: InfoField): {
  readonly program: 'Redis' | 'Valkey'
  readonly version: string
} {
  const valkey = field('valkey_version')
  return valkey === ''
    ? { program: 'Redis', version: field('redis_version') }
    : { program: 'Valkey', version: valkey }
}

const OLDEST_REDIS = 7

/** Programs that call themselves some Redis in `redis_version`, by the field in which they say what they are. */
const OTHERS: Readonly<Record<string, string>> = {
  dragonfly_version: 'Dragonfly',
  garnet_version: 'Garnet',
  kvrocks_version: 'Kvrocks',
}

/** @param field of the section `server` at least */
export function whyUnsuitable(field: InfoField): Trouble | undefined {
  const { program, version } = serverOf(field)
  const other = otherProgram(field)
  if (other !== undefined) return troubleOf('other_program', other)
  const mode = field('redis_mode') || field('server_mode')
  if (mode === 'sentinel') return troubleOf('sentinel')
  if (mode === 'cluster') return troubleOf('cluster_mode', program)
  if (program === 'Redis' && Number.parseInt(version, 10) < OLDEST_REDIS)
    return troubleOf('old_redis', version)
  return undefined
}

function otherProgram(field: InfoField): string | undefined {
  for (const [name, program] of Object.entries(OTHERS)) {
    const version = field(name)
    if (version !== '') return `${program} ${version}`
  }
  // There was no Redis 6.3.
  const version = field('redis_version')
  if (version.startsWith('6.3.')) return `KeyDB ${version}`
  const name = field('server_name')
  return name === '' || name === 'valkey' ? undefined : name
}

/** Asks a server that refused a poll, in words that say nothing of why, what it is. */
export async function askWhyUnsuitable(client: Redis): Promise<Trouble | undefined> {
  try {
    return whyUnsuitable(fieldsOf(await client.info('server')))
  } catch (cause) {
    return whyNoInfo(cause)
  }
}

/** Of Redis and Valkey only one that loads, is busy, has no connection to spare or demands a password refuses INFO: in other words. */
export function whyNoInfo(cause: unknown): Trouble | undefined {
  if (!(cause instanceof Error) || cause.name !== 'ReplyError') return undefined
  const { command, message } = cause as ReplyError
  if (
    command?.name.toLowerCase() !== 'info' ||
    !/\b(unknown|(un|not )supported|wrong number)\b/i.test(message)
  )
    return undefined
  return troubleOf('no_info', message.trim())
}

type ReplyError = Error & { readonly command?: { readonly name: string } }
