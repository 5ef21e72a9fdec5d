-- A step is done once: its row is the proof. The token of the last writer stands with the job and only grows.
CREATE TABLE job (
  id                 text PRIMARY KEY,
  last_fencing_token bigint NOT NULL DEFAULT 0
);
CREATE TABLE job_step (
  job_id        text NOT NULL REFERENCES job,
  step          integer NOT NULL,
  fencing_token bigint NOT NULL,
  PRIMARY KEY (job_id, step)
);
