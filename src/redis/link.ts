/**
 * The port `NodeLink` over one connection to one Redis node: what the driver of the nodes asks of it (`core/nodes/node-driver.ts`).
 *
 * Owns the deadlines of these calls. What they send is `inspection.ts`, `glance.ts`, `pulse.ts` and `enrolment.ts`.
 */

import type { Redis } from 'ioredis'
import type { Clock } from '../core/clock.ts'
import type { Pulse } from '../core/nodes/continuity.ts'
import type { NodeFacts } from '../core/nodes/fitness.ts'
import {
  type Dialled,
  type Glance,
  INSPECT_DEADLINE_MS,
  type NodeLink,
  type SeenRun,
} from '../core/nodes/member.ts'
import { within } from '../core/retry.ts'
import { onDown, type RedisAddress } from './connect.ts'
import { RedisEnrolmentNode } from './enrolment.ts'
import { glanceAt } from './glance.ts'
import { inTime } from './in-time.ts'
import { inspectNode } from './inspection.ts'
import { unreadyFault } from './node-fault.ts'
import { writeNotes, writePulse } from './pulse.ts'
import type { Script } from './scripts.ts'

const SILENT_NODE = `no answer to an inspection within ${INSPECT_DEADLINE_MS} ms`

/** A late heartbeat is none: the next look writes one. */
const PULSE_DEADLINE_MS = 1_000
const LATE_PULSE = `no pulse within ${PULSE_DEADLINE_MS} ms`

export type RedisLinkOptions = {
  readonly name: string
  readonly client: Redis
  readonly address: RedisAddress
  readonly script: Script
  readonly connectTimeoutMs: number
  readonly clock: Clock
  readonly pulseEveryMs?: number
}

export class RedisLink implements NodeLink {
  readonly #options: RedisLinkOptions

  constructor(options: RedisLinkOptions) {
    this.#options = options
  }

  get status(): NodeLink['status'] {
    const { status } = this.#options.client
    return status === 'ready' ? 'ready' : status === 'connect' ? 'open' : 'down'
  }

  async dial({ ready, down }: Dialled): Promise<void> {
    const { client, address, clock, connectTimeoutMs } = this.#options
    onDown(client, address, down)
    client.on('ready', ready)
    // A suspended process accepts the connection and never gets ready.
    const readyMs = connectTimeoutMs + INSPECT_DEADLINE_MS
    await within(clock, readyMs, client.connect(), 'not ready in time').catch(() => {
      if (this.status === 'open') down(unreadyFault({ tls: address.tls?.(), stream: client.stream }), false)
    })
  }

  redial(): void {
    this.#options.client.disconnect(true)
  }

  close(): void {
    this.#options.client.disconnect()
  }

  inspect(): Promise<NodeFacts> {
    return this.#answerOrRedial(inspectNode(this.#options.client))
  }

  glance(): Promise<Glance | undefined> {
    return this.#answerOrRedial(glanceAt(this.#options.client).catch(() => undefined))
  }

  writePulse(
    epoch: string,
    pulse: Pick<Pulse, 'name' | 'durable' | 'others'>,
    counters: ReadonlyMap<string, string>,
  ): ReturnType<NodeLink['writePulse']> {
    const { client, clock, pulseEveryMs } = this.#options
    const written = writePulse(client, epoch, pulse, counters, pulseEveryMs)
    return inTime(clock, PULSE_DEADLINE_MS, written, LATE_PULSE)
  }

  writeNotes(epoch: string, counters: ReadonlyMap<string, string>): Promise<void> {
    const { client, clock } = this.#options
    return inTime(clock, PULSE_DEADLINE_MS, writeNotes(client, epoch, counters), LATE_PULSE)
  }

  acts(seen: SeenRun): RedisEnrolmentNode {
    return new RedisEnrolmentNode({ ...this.#options, ...seen, deadlineMs: INSPECT_DEADLINE_MS })
  }

  async #answerOrRedial<T>(answer: Promise<T>): Promise<T> {
    try {
      return await inTime(this.#options.clock, INSPECT_DEADLINE_MS, answer, SILENT_NODE)
    } catch (cause) {
      // Behind a path that drops packets only a new connection can tell that the path is back.
      if (cause instanceof Error && cause.message === SILENT_NODE) this.redial()
      throw cause
    }
  }
}
