/** The application at an address, over one connection unless the test says otherwise. */
import { systemClock } from '../../src/system/clock.ts'
import { type ApplicationOptions, createApplication } from '../../src/upstream/application.ts'

export function applicationAt(origin: string, options: Partial<ApplicationOptions> = {}) {
  return createApplication({
    address: { kind: 'http', origin },
    host: 'client',
    connectTimeoutMs: 500,
    bodyIdleMs: 5_000,
    connectionsMax: 1,
    keepAliveMs: 4_000,
    clock: systemClock,
    ...options,
  })
}
