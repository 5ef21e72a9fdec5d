-- One row an order, whatever happens: the UNIQUE constraint is the last word, the reservation keeps us from needing it.
CREATE TABLE payment (
  id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  order_id      text NOT NULL UNIQUE,
  amount        integer NOT NULL,
  fencing_token bigint NOT NULL
);
