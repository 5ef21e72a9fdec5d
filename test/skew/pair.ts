/**
 * Two sidecars, each of another version, before one application: what the crossings are tried on.
 *
 * They have the leases of the load beside them (`test/faults/stage.ts`), because the longest lease that any sidecar asks for decides
 * how long a node that forgot waits.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { SETTINGS } from '../faults/stage.ts'
import { type CountingApplication, startCountingApplication } from '../support/counting-application.ts'
import { type Sidecar, startSidecar } from '../support/sidecar.ts'

/** A route for each way in which a request is known, and in which it waits. Where its content counts no header does: the two have two addresses. */
const ROUTES = `routes:
  - { name: keys, match: { methods: [POST], paths: ["/payments"] }, mode: header }
  - { name: contents, match: { methods: [POST], paths: ["/orders"] }, mode: content, fingerprint: { headers: [] } }
  - { name: both, match: { methods: [POST], paths: ["/transfers"] }, mode: both, fingerprint: { headers: [] } }
  - name: waits
    match: { methods: [POST], paths: ["/waits"] }
    mode: header
    onContention: wait
    wait: { max: 20s, waiters: 100 }
  - name: turns
    match: { methods: [POST], paths: ["/turns"] }
    mode: header
    onContention: coordinate
    wait: { max: 20s, waiters: 100 }
    entities: [{ header: x-account }]
    entityWait: 20s
  - name: accounts
    match: { methods: [POST], paths: ["/accounts"] }
    mode: header
    entities: [{ header: x-account }]
    entityWait: 0s
`

type Side = {
  readonly name: string
  readonly sidecar: Sidecar
  /** The main program of its version. */
  readonly main: string
}

export type Pair = AsyncDisposable & {
  readonly sides: readonly [Side, Side]
  readonly application: CountingApplication
  /** Of both, for one more process of either version. */
  readonly env: Readonly<Record<string, string>>
}

/** Beside a load that fills the machine. */
export const START_MS = 180_000

export type Version = { readonly name: string; readonly main: string }

/** @param nodes what `FENCEPOST_REDIS_NODES` takes */
export async function startPair(versions: readonly [Version, Version], nodes: string): Promise<Pair> {
  await using owned = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-skew-'))
  owned.defer(() => rm(folder, { recursive: true, force: true }))
  const application = owned.use(await startCountingApplication())
  await writeFile(join(folder, 'fencepost.yaml'), ROUTES)
  // Encrypted outcomes are a format of their own; the load beside them records plain ones.
  await writeFile(join(folder, 'keys'), `skew ${randomBytes(32).toString('base64')}\n`)
  const env = {
    ...SETTINGS,
    FENCEPOST_CLAIM_BUDGET: '3s',
    FENCEPOST_SETTLE_BUDGET: '5s',
    FENCEPOST_UPSTREAM_TIMEOUT: '30s',
    FENCEPOST_TOTAL_HOLD: '60s',
    FENCEPOST_REDIS_NODES: nodes,
    FENCEPOST_UPSTREAM: application.url,
    FENCEPOST_CONFIG: join(folder, 'fencepost.yaml'),
    FENCEPOST_KEY_RING_FILE: join(folder, 'keys'),
    FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
  }
  const start = async ({ name, main }: Version): Promise<Side> => ({
    name,
    main,
    sidecar: owned.use(await startSidecar(env, { main, startWithinMs: START_MS })),
  })
  const sides = [await start(versions[0]), await start(versions[1])] as const
  const all = owned.move()
  return { sides, application, env, [Symbol.asyncDispose]: () => all.disposeAsync() }
}
