import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { UnsuitableServer } from '../../src/core/nodes/member.ts'
import { inspectNode } from '../../src/redis/inspection.ts'
import { fieldsOf, serverOf, whyUnsuitable } from '../../src/redis/server-program.ts'
import { answering } from '../support/stand-in.ts'

const infoOf = (lines: readonly string[]) => fieldsOf(`# Server\r\n${lines.join('\r\n')}\r\n`)

// Bug: it was Redis 7.2.4, whichever Valkey it was, so that `doctor` found different ones to be of one version.
test('Valkey is named with its own version, not with that of the Redis whose commands it knows', () => {
  const valkey = infoOf(['redis_version:7.2.4', 'server_name:valkey', 'valkey_version:9.1.2'])
  expect(serverOf(valkey)).toEqual({ program: 'Valkey', version: '9.1.2' })
  expect(whyUnsuitable(valkey)).toBeUndefined()
  expect(serverOf(infoOf(['redis_version:7.0.15']))).toEqual({ program: 'Redis', version: '7.0.15' })
})

// Bug: they were some Redis. One that lacked a command was down, as if it might come back, and one that had all would have voted.
test.each([
  { program: 'Dragonfly df-v1.38.0', lines: ['redis_version:7.4.0', 'dragonfly_version:df-v1.38.0'] },
  { program: 'Garnet 2.2.8', lines: ['garnet_version:2.2.8', 'server_name:garnet', 'redis_version:7.4.3'] },
  {
    program: 'Kvrocks 2.10.0',
    lines: ['version:2.10.0', 'kvrocks_version:2.10.0', 'redis_version:4.0.0'],
  },
  { program: 'KeyDB 6.3.4', lines: ['redis_version:6.3.4', 'redis_mode:standalone'] },
  { program: 'someotherstore', lines: ['redis_version:8.0.0', 'server_name:someotherstore'] },
])('$program is not taken for a Redis', async ({ program, lines }) => {
  const reason = `it is ${program}, which speaks Redis' protocol and keeps its data by other rules: use Redis 7.0 or later, or Valkey, by its own address`
  expect(whyUnsuitable(infoOf(lines))?.fault).toBe('other_program')
  const info = `# Server\r\n${lines.join('\r\n')}\r\n`
  expect(await refusalOf(await answering(`$${info.length}\r\n${info}\r\n`))).toBe(reason)
})

test.each([
  '-section (server) is not supported',
  "-ERR unknown command 'info'",
  "-ERR unsupported command 'info'",
])('a server that answers INFO with %s is unsuitable', async (answer) => {
  expect(await refusalOf(await answering(`${answer}\r\n`))).toMatch(
    /^it does not answer INFO as Redis does \(/,
  )
})

test.each([
  'LOADING Redis is loading the dataset in memory',
  'BUSY Redis is busy running a script.',
  'NOAUTH Authentication required.',
  'ERR max number of clients reached',
])('a server that says "%s" may be a node later', async (said) => {
  const url = await answering(`-${said}\r\n`)
  expect(await refusalOf(url)).toBe(`not refused: ${said}`)
})

async function refusalOf(url: string): Promise<string> {
  const client = new Redis(url, {
    protocol: 2,
    lazyConnect: true,
    enableReadyCheck: false,
    disableClientInfo: true,
  })
  onTestFinished(() => client.disconnect())
  await client.connect()
  const cause: unknown = await inspectNode(client).catch((thrown: unknown) => thrown)
  if (cause instanceof UnsuitableServer) return cause.message
  return `not refused: ${cause instanceof Error ? cause.message : String(cause)}`
}
