/** Files with secrets: what is accepted, and that their content is never shown. */
import { describe, expect, test } from 'vitest'
import { describeErrors } from '../../src/config/errors.ts'
import { loadConfig } from '../../src/config/load.ts'
import { rowOf } from '../../src/config/settings.ts'

const KEY = Buffer.alloc(32, 1).toString('base64')

const load = (variable: string, content: string) =>
  loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off', [variable]: '/file' },
    () => content,
  )

describe.each([
  ['FENCEPOST_KEY_RING_FILE', 'keyRing'] as const,
  ['FENCEPOST_RESERVATION_SECRET_FILE', 'reservationSecret'] as const,
])('%s', (variable, setting) => {
  const good = { keyRing: `k ${KEY}\n`, reservationSecret: `${'s'.repeat(32)}\n${'t'.repeat(40)}\n` }[setting]
  const bad = { keyRing: `k ${KEY.slice(4)}\n`, reservationSecret: `${'s'.repeat(31)}\n` }[setting]

  test('a file with secrets is read, and shown by its path only', () => {
    const loaded = load(variable, good)
    if (loaded.kind === 'invalid') throw new Error(describeErrors(loaded.errors))
    expect(rowOf(setting).kind.print(loaded.config[setting])).toBe('/file')
  })

  test('a file with a secret that is too short is refused, without showing it', () => {
    const loaded = load(variable, bad)
    if (loaded.kind === 'ok') throw new Error('it was accepted')
    const told = describeErrors(loaded.errors)
    expect(told).toContain(`${variable}: "/file" is not accepted`)
    expect(told).not.toContain(KEY.slice(4, 20))
    expect(told).not.toContain('sssss')
  })
})
