import { expect, test } from 'vitest'
import { fieldsOf, serverOf } from '../../src/redis/inspection.ts'

const server = (...lines: readonly string[]) => serverOf(fieldsOf(`# Server\r\n${lines.join('\r\n')}\r\n`))

// Bug: it was Redis 7.2.4, whichever Valkey it was, so that `doctor` found different ones to be of one version.
test('Valkey is named with its own version, not with that of the Redis whose commands it knows', () => {
  const valkey = server('redis_version:7.2.4', 'server_name:valkey', 'valkey_version:9.1.2')
  expect(valkey).toEqual({ program: 'Valkey', version: '9.1.2' })
  expect(server('redis_version:7.0.15')).toEqual({ program: 'Redis', version: '7.0.15' })
})
