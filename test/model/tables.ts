/**
 * Records, commands and answers as small numbers, and what a command does to a record as a table that fills itself.
 *
 * Owns the numbering. Every entry is made by the production rules (`applyCommand`), once.
 */

import type { NodeAnswer } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { applyCommand } from '../../src/core/record/record-rules.ts'
import { encodeOutcome } from '../support/encoded-outcome.ts'

/** The one moment at which everything happens; tokens are far below it, so none is too far ahead. */
const NODE_MS = 1_000_000
const LEASE_MS = 1_000
const FINGERPRINT = 'f'.repeat(64)

const NOT_HEARD: NodeAnswer = { kind: 'unreachable', reason: 'timeout', detail: 'not heard' }

type Command = {
  readonly claimant: number
  /** Phase and token: which answers belong to a claimant's present round. */
  readonly serial: string
  readonly token: number
  readonly command: RecordCommand
}

export class Tables {
  readonly #records: (NodeRecord | undefined)[] = [undefined]
  readonly #recordIds = new Map<string, number>([['absent', 0]])
  readonly #commands: Command[] = []
  readonly #commandIds = new Map<string, number>()
  readonly #answers: NodeAnswer[] = [NOT_HEARD]
  readonly #answerIds = new Map<string, number>()
  readonly #effects = new Map<number, { readonly record: number; readonly answer: number }>()
  readonly #outcomes: Buffer[] = []

  claim(claimant: number, token: number): number {
    const common = { key: 'k', token, owner: ownerOf(claimant), leaseMs: LEASE_MS, keyTtlMs: 1 }
    return this.#command(claimant, `claiming ${token}`, {
      kind: 'claim',
      ...common,
      fingerprint: FINGERPRINT,
    })
  }

  renew(claimant: number, token: number, attempt: number): number {
    const common = { key: 'k', token, owner: ownerOf(claimant), leaseMs: LEASE_MS, keyTtlMs: 1, attempt }
    return this.#command(claimant, `renewing ${token}`, {
      kind: 'renew',
      ...common,
      fingerprint: FINGERPRINT,
    })
  }

  /** @param acceptedToken given where a node gets a copy of what a majority accepted there */
  complete(claimant: number, token: number, value: number, attempt: number, acceptedToken?: number): number {
    const outcome = this.#outcomeOf(value)
    const common = {
      key: 'k',
      token,
      owner: ownerOf(claimant),
      keyTtlMs: 1,
      attempt,
      fingerprint: FINGERPRINT,
      ...(acceptedToken === undefined ? {} : { acceptedToken }),
    }
    const phase = value === claimant ? 'completing' : 'adopting'
    return this.#command(claimant, `${phase} ${token}`, { kind: 'complete', ...common, outcome })
  }

  release(claimant: number, token: number): number {
    const common = { key: 'k', token, owner: ownerOf(claimant), keyTtlMs: 1 }
    return this.#command(claimant, `releasing ${token}`, { kind: 'release', ...common })
  }

  command(id: number): Command {
    return this.#commands[id]!
  }

  answer(id: number): NodeAnswer {
    return this.#answers[id]!
  }

  fenceOf(record: number): number {
    return this.#records[record]?.fence ?? 0
  }

  /** Which claimant's outcome this is. */
  valueOf(outcome: Buffer): number {
    return this.#outcomes.findIndex((known) => known?.equals(outcome))
  }

  say(id: number): string {
    const { claimant, command } = this.command(id)
    return `${command.kind} of ${claimant}${'token' in command ? ` at ${command.token}` : ''}`
  }

  apply(record: number, command: number): { readonly record: number; readonly answer: number } {
    const at = record * 65_536 + command
    const known = this.#effects.get(at)
    if (known !== undefined) return known
    const { answer, write } = applyCommand(
      this.#records[record],
      this.#commands[command]!.command,
      NODE_MS,
      0,
    )
    const effect = {
      record: write === undefined ? record : this.#record(write.record),
      answer: this.#answer(answer),
    }
    this.#effects.set(at, effect)
    return effect
  }

  /** The same record with its lease over, or itself. */
  lapse(id: number): number {
    const record = this.#records[id]
    if (record?.state !== 'claimed' || record.leaseUntilNodeMs <= NODE_MS) return id
    return this.#record({ ...record, leaseUntilNodeMs: 0 })
  }

  #record(record: NodeRecord): number {
    return numbered(record, this.#records, this.#recordIds)
  }

  #answer(answer: NodeAnswer): number {
    return numbered(answer, this.#answers, this.#answerIds)
  }

  #command(claimant: number, serial: string, command: RecordCommand): number {
    return numbered(
      { claimant, serial, token: 'token' in command ? command.token : 0, command },
      this.#commands,
      this.#commandIds,
    )
  }

  #outcomeOf(value: number): Buffer {
    this.#outcomes[value] ??= encodeOutcome({ kind: 'result', result: value, completedAtWallMs: 0 })
    return this.#outcomes[value]
  }
}

function ownerOf(claimant: number): string {
  return String(claimant + 1).repeat(32)
}

function numbered<T extends object>(thing: T, all: (T | undefined)[], ids: Map<string, number>): number {
  const name = JSON.stringify(thing, (_, value: unknown) => value)
  const known = ids.get(name)
  if (known !== undefined) return known
  all.push(thing)
  ids.set(name, all.length - 1)
  return all.length - 1
}
