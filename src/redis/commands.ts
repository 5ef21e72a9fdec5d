/**
 * The commands that a sidecar runs on its nodes, as one list: `membership.lua` asks each node whether its user may run them,
 * docs/operations/nodes.md and the charts give exactly these rights, and a test runs everything with no other.
 */

/** As a node is asked about it: with arguments that belong to a key of ours. */
type Command = readonly [name: string, ...args: string[]]

const KEY = 'dedup::heartbeat'

/** Without one of them a node would seem well while each request, or each one of a kind, is refused. */
const NEEDED: readonly Command[] = [
  ['INFO'],
  ['SCAN', '0'],
  ['EVAL', 'return 1', '1', KEY],
  ['EVALSHA', 'x', '1', KEY],
  ['SCRIPT|LOAD', 'return 1'],
  ['TIME'],
  ['GET', KEY],
  ['SET', KEY, 'x'],
  ['GETRANGE', KEY, '0', '0'],
  ['SETRANGE', KEY, '0', 'x'],
  ['STRLEN', KEY],
  ['PTTL', KEY],
  ['EXISTS', KEY],
  ['DEL', KEY],
  ['HGET', KEY, 'x'],
  ['HSET', KEY, 'x', 'x'],
  ['HSETNX', KEY, 'x', 'x'],
  ['HGETALL', KEY],
  ['XADD', KEY, '*', 'x', 'x'],
  ['XREVRANGE', KEY, '+', '-'],
  ['XDEL', KEY, '0-1'],
]

/** What a managed Redis may refuse: then a node counts as one without a durable log, and its slow commands are not told. */
const OPTIONAL: readonly Command[] = [['CONFIG|GET', 'x'], ['SLOWLOG|GET'], ['SLOWLOG|LEN']]

export const NEEDED_COMMANDS: readonly string[] = NEEDED.map(([name]) => name.toLowerCase())

/** The rules of the user in `users.acl`. */
export const COMMAND_RULES: string = [...NEEDED, ...OPTIONAL]
  .map(([name]) => `+${name.toLowerCase()}`)
  .join(' ')

/** For `membership.lua`: `{{'INFO'},{'SCAN','0'},…}`. */
export const NEEDED_AS_LUA: string = `{${NEEDED.map(
  ([name, ...args]) => `{${[...name.split('|'), ...args].map((word) => `'${word}'`).join(',')}}`,
).join(',')}}`
