/** How many connections of clients a listener takes where the configuration does not say: what the memory of the container carries. */
import { expect, test } from 'vitest'
import { sized } from '../../src/app/listener-limits.ts'
import type { Config } from '../../src/config/load.ts'

const MIB = 2 ** 20

/** Bug: 20,000 in every container. Used once they take 650 MiB, with TLS 1.8 GiB; the kernel kills a sidecar of 384 long before. */
test.each<[memory: string, bytes: number | undefined, plain: number, tls: number]>([
  ['384 MiB', 384 * MIB, 4_096, 1_365],
  ['1 GiB', 1_024 * MIB, 10_922, 3_640],
  ['8 GiB', 8_192 * MIB, 20_000, 20_000],
  ['no limit', undefined, 20_000, 20_000],
  ['nearly nothing', 1, 1, 1],
])('%s', (_, bytes, plain, tls) => {
  const config = { connectionsMax: undefined, tlsCert: undefined } as unknown as Config
  expect(sized(config, bytes).connectionsMax).toBe(plain)
  const tlsCert = { path: '/tls.crt', content: '' } as never
  expect(sized({ ...config, tlsCert }, bytes).connectionsMax).toBe(tls)
  expect(sized({ ...config, connectionsMax: 7 }, bytes).connectionsMax).toBe(7)
})
