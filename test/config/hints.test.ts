/** `config check` warns of leases that end before an application may answer, where nobody renews them. */
import { expect, test } from 'vitest'
import { hintsFor } from '../../src/config/hints.ts'
import { loadConfig } from '../../src/config/load.ts'

test.each<[env: Record<string, string>, warned: number]>([
  [{}, 0],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0' }, 2],
  [{ FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0' }, 2],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0', FENCEPOST_LEASE: '60s' }, 0],
  [{ FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0', FENCEPOST_UPSTREAM_TIMEOUT: '10s' }, 0],
])('%j: %i routes have a lease that is shorter than the application may take', (env, warned) => {
  const loaded = loadConfig(
    { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000', ...env },
    () => '',
  )
  if (loaded.kind === 'invalid') throw new Error(JSON.stringify(loaded.errors))
  const hints = hintsFor(loaded.config).filter((hint) => hint.includes('2 to 3 times the p99'))
  expect(hints.length).toBe(warned)
})
