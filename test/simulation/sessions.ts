/**
 * Clients of the reservation API that reserve several records as one: one owner, one token, all or none.
 *
 * Owns what a session does by the plan: it reserves, reserves again what it holds, extends and ends it, each call
 * through the process that serves it. Everything that decides is production code.
 */

import type { Leases } from '../../src/core/ports.ts'
import type { StoredOutcome } from '../../src/core/record/stored-outcome.ts'
import {
  complete,
  type EndResult,
  extend,
  type Reservation,
  release,
} from '../../src/core/reservations/reservations.ts'
import { reserve } from '../../src/core/reservations/reserve.ts'
import { pause } from '../../src/core/retry.ts'
import { type ActorPorts, entityKeyOf, fingerprintOf, keyOf } from './actors.ts'
import { streamOf } from './dice.ts'
import type { Submission } from './history.ts'
import type { Operation } from './plan.ts'
import { contentOf, type Sidecar, unattended } from './sidecar.ts'

type SessionOperation = Extract<Operation, { kind: 'session' }>

export async function reserveTogether(
  operation: SessionOperation,
  submission: Submission,
  sidecar: Sidecar,
  ports: ActorPorts,
): Promise<void> {
  const { history, scheduler, retentionMs } = ports
  const { clock } = sidecar.process
  const fingerprint = fingerprintOf(operation.content)
  const asked = {
    intents: operation.keys.map((key) => ({ recordKey: keyOf(key), fingerprint })),
    entities: operation.entities.map((entity) => ({ recordKey: entityKeyOf(entity), fingerprint })),
    takeover: 'reexecute',
    sessionTag: String(operation.session).padStart(16, '0'),
    leaseMs: operation.leaseMs,
    retentionMs,
    budgetMs: 100,
  } as const
  const random = streamOf(ports.seed, 'session', submission.index)
  const result = await reserve(asked, leasesOf(sidecar, ports), random)
  if (result.kind === 'duplicate') {
    const { recordKey: key } = result.intent
    const content = contentOf(result.outcome)
    history.shown.push({
      key,
      fingerprint,
      content,
      askedMs: submission.askedMs,
      atMs: scheduler.nowMs,
      by: 'replayed',
    })
  }
  if (result.kind !== 'reserved') return
  history.saw('reserved_together')
  const { reservation } = result
  checkOneToken(reservation, ports)
  await pause(clock, operation.workMs / 2)
  const serving = () => {
    const by = ports.sidecarOf(operation.servedBy) ?? sidecar
    submission.handedTo = by.process.name
    return leasesOf(by, ports)
  }
  const extended = await extend(reservation, () => operation.leaseMs, serving())
  if (extended.kind === 'extended') checkOneToken(extended.reservation, ports)
  await pause(clock, operation.workMs / 2)
  await end(operation, reservation, serving, ports, sidecar)
}

async function end(
  operation: SessionOperation,
  reservation: Reservation,
  serving: () => Leases,
  ports: ActorPorts,
  { process: { clock } }: Sidecar,
): Promise<void> {
  const { ends, workMs } = operation
  // One reservation has one result, even if completed twice. The next one of the same session is another execution.
  const outcome = (): StoredOutcome => ({
    kind: 'result',
    result: `session ${operation.session} under token ${reservation.token}`,
    completedAtWallMs: clock.wallMs(),
  })
  switch (ends) {
    case 'vanishes':
      return
    case 'releases':
      await release(reservation, serving())
      return
    case 'completes':
      checkWhole(await complete(reservation, outcome(), serving()), reservation, ports)
      return
    case 'completes_again':
      await complete(reservation, outcome(), serving())
      await pause(clock, 2 * workMs)
      checkWhole(await complete(reservation, outcome(), serving()), reservation, ports)
  }
}

/** No process keeps it in memory: the process that serves the next call reads it from its id. */
function leasesOf(sidecar: Sidecar, { history, scheduler }: ActorPorts): Leases {
  return unattended(sidecar.leases, history, scheduler)
}

/** T1: all parts of a reservation are held by one owner under one token. */
function checkOneToken({ intents, entities, owner, token }: Reservation, { history, scheduler }: ActorPorts) {
  for (const { recordKey: key } of [...intents, ...entities]) {
    if (history.grantOf({ key, owner, token }) !== undefined) continue
    history.violated(
      'T1',
      scheduler.nowMs,
      `${key} was reserved under token ${token}, and is not held under it`,
    )
  }
}

/** T2: a reservation that is acknowledged as completed is recorded in every one of its records. */
function checkWhole(ended: EndResult, { intents, owner, token }: Reservation, ports: ActorPorts): void {
  const { history, scheduler } = ports
  if (ended.kind !== 'done') return
  history.saw('completed_together')
  for (const { recordKey: key } of intents) {
    if (history.grantOf({ key, owner, token })?.recordedMs !== undefined) continue
    history.violated('T2', scheduler.nowMs, `a reservation was completed, and its ${key} was not`)
  }
}
