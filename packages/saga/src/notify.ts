/**
 * An optional hint that something is in the outbox, so that a relay need not wait for its next poll.
 *
 * A hint and no transport: NOTIFY carries no message, may be lost with its connection, and is missed by nobody because the
 * poll goes on. It costs a lock that all committing transactions of the *server* share, which is why it is off unless
 * asked for, and why it is one notification a statement, without payload (those of one transaction are merged).
 * LISTEN needs a session: a direct connection, not a pooler in transaction mode.
 */
import pg from 'pg'
import { pause } from './core.ts'
import type { SagaKit } from './kit.ts'
import type { OutboxRelay } from './relay.ts'

const channelOf = (kit: SagaKit) => `fencepost_${kit.schemaName}`.slice(0, 63)

/** A server that accepts and says nothing is given up after this. */
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
  await kit.pool.query(`DROP TRIGGER IF EXISTS outbox_notify ON ${kit.schema}.outbox`)
}

/** Wakes the relay at every notification; reconnects by itself, for ever, until closed. */
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
    // Closed meanwhile: whoever closed it did not know of this one.
    if (closed) return next.end()
    client = next
    // Only of one that stood: a connection that could not be made ends, too, and is tried again by whoever made it.
    next.once('end', () => void again())
    // What was notified while no connection listened.
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
