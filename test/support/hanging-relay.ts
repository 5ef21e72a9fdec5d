/**
 * A relay in a process of its own that takes its partitions, hands messages to a broker that never answers, and is killed.
 * Usage: node hanging-relay.ts <database URL> <schema> <lease, ms>
 */

import { createOutboxRelay, createSagaKit } from '@fencepost/saga'
import pg from 'pg'

const [url, schema, leaseMs] = process.argv.slice(2)
const kit = createSagaKit({ pool: new pg.Pool({ connectionString: url! }), schema: schema! })
const publisher = {
  publish: () => {
    console.log('sending')
    return new Promise<never>(() => {})
  },
  close: async () => {},
}
createOutboxRelay({ kit, publisher, pollIntervalMs: 5, leaseMs: Number(leaseMs) }).start()
