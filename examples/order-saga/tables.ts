/**
 * The tables of the three services (orders, inventory, ledger), in one database for the example's sake; each is written by
 * its own service only. The amounts are whole cents.
 */
import type { SagaKit } from '@fencepost/saga'

export const articles = ['anvil', 'bolt', 'crate', 'drill', 'easel'] as const

export async function createTables(kit: SagaKit, piecesEach: number): Promise<void> {
  await kit.pool.query(`
    CREATE TABLE orders (
      id      text   PRIMARY KEY,
      article text   NOT NULL,
      amount  bigint NOT NULL,
      state   text   NOT NULL CHECK (state IN ('placed', 'accepted', 'completed', 'failed'))
    );
    CREATE TABLE stock (
      id                 text PRIMARY KEY,
      initial            int  NOT NULL,
      pieces             int  NOT NULL CHECK (pieces >= 0)
    );
    CREATE TABLE reservations (order_id text PRIMARY KEY, article text NOT NULL);
    CREATE TABLE payments (order_id text PRIMARY KEY, charge_key text NOT NULL, amount bigint NOT NULL);
    -- No primary key on the order: if an event took effect twice, it would show here.
    CREATE TABLE ledger (at bigserial, order_id text NOT NULL, entry text NOT NULL, amount bigint NOT NULL);`)
  await kit.pool.query('INSERT INTO stock SELECT unnest($1::text[]), $2, $2', [[...articles], piecesEach])
}
