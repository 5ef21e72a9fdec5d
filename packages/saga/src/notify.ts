/**
 * An optional hint that the outbox has messages, so that a relay need not wait for its next poll.
 *
 * A hint and no transport: NOTIFY carries no message and may be lost with its connection, which is harmless because the
 * poll goes on. It costs a lock that all committing transactions of the *server* share: so it is off by default, and a
 * statement sends one notification, without payload (those of one transaction are merged).
 * LISTEN needs a session: a direct connection, not a pooler in transaction mode.
 */
import pg from 'pg'
import { pause } from './core.ts'
import type { SagaKit } from './kit.ts'
import type { OutboxRelay } from './relay.ts'

const channelOf = (kit: SagaKit) => `fencepost_${kit.schemaName}`.slice(0, 63)

/** Time limit for a server that accepts the connection and does not reply. */
const connectTimeoutMs = 5_000

/** Writers notify from now on. */
export async function enableNotify(kit: SagaKit): Promise<void> {
  const s = kit.schema
  await kit.transaction(async (tx) => {
    await tx.query(`CREATE OR REPLACE FUNCTION ${s}.notify_outbox() RETURNS trigger LANGUAGE plpgsql AS
      $$ BEGIN PERFORM pg_notify('${channelOf(kit)}', ''); RETURN NULL; END $$`)
    await tx.query(`DROP TRIGGER IF EXISTS outbox_notify ON ${s}.outbox`)
    await tx.query(`CREATE TRIGGER outbox_notify AFTER INSERT ON ${s}.outbox
      FOR EACH STATEMENT EXECUTE FUNCTION ${s}.notify_outbox()`)
  })
}

export async function disableNotify(kit: SagaKit): Promise<void> {
  await kit.query(`DROP TRIGGER IF EXISTS outbox_notify ON ${kit.schema}.outbox`)
}

/** Wakes the relay at every notification; reconnects by itself until closed. */
export async function wakeOnNotify(
  kit: SagaKit,
  relay: Pick<OutboxRelay, 'relayId' | 'wake'>,
  connection: pg.ClientConfig,
): Promise<AsyncDisposable> {
  let closed = false
  let client: pg.Client | undefined
  const listen = async (): Promise<void> => {
    const next = new pg.Client({ keepAlive: true, connectionTimeoutMillis: connectTimeoutMs, ...connection })
    next.on('error', (error) => kit.emit({ kind: 'relay_error', relayId: relay.relayId, error }))
    next.on('notification', () => relay.wake())
    try {
      await next.connect()
      await next.query(`LISTEN "${channelOf(kit)}"`)
    } catch (error) {
      await next.end().catch(() => {})
      throw error
    }
    // Closed meanwhile: the dispose function did not know of this connection.
    if (closed) return next.end()
    client = next
    // Only after success: a connection attempt that failed ends too, and its caller retries it.
    next.once('end', () => void again())
    // There may be notifications that no connection received.
    relay.wake()
  }
  const again = async (): Promise<void> => {
    while (!closed) {
      await pause(kit.clock, 1_000)
      if (closed) return
      try {
        return await listen()
      } catch (error) {
        kit.emit({ kind: 'relay_error', relayId: relay.relayId, error })
      }
    }
  }
  await listen()
  return {
    async [Symbol.asyncDispose]() {
      closed = true
      await client?.end()
    },
  }
}
