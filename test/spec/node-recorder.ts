/**
 * What one real node executed, in the words of `recorder.ts`: from the lines of its MONITOR.
 *
 * Owns how a call of the batch script is taken apart into its commands, and the record that a node has after each: what
 * the script wrote, byte for byte. Answers are not shown: a claim that wrote was granted; of all else only the record
 * is known.
 */

import type { NodeAnswer } from '../../src/core/ports.ts'
import type { NodeRecord, RecordCommand } from '../../src/core/record/record.ts'
import { NO_TOKEN, parseToken } from '../../src/core/record/token.ts'
import { INCARNATION_KEY } from '../../src/redis/keys.ts'
import type { Script } from '../../src/redis/scripts.ts'
import { unpackRecord } from '../../src/redis/wire.ts'
import type { Carried } from './monitor.ts'
import type { Event, Kept } from './recorder.ts'

export type Timed = { readonly atUs: number; readonly event: Event }

type Packed = { readonly bytes: string; readonly expiresMs: number }

/** What a node has when it is started again: read before any sidecar can reach it. */
export type Remembered = {
  readonly atUs: number
  readonly records: ReadonlyMap<string, Packed>
  readonly incarnation?: string
}

type Frame = { readonly key: string; readonly bytes: string; readonly rest: string }

const FRAME = 173

export class NodeRecorder {
  readonly events: Timed[] = []
  /** Twice in one call: which of the two wrote is unknown, so these are left out. */
  readonly twice = new Set<string>()
  readonly #node: number
  readonly #script: Script
  readonly #records = new Map<string, Packed>()
  #incarnation: string | undefined
  #votes = false

  constructor(node: number, script: Script) {
    this.#node = node
    this.#script = script
  }

  /** It was started again, and this is what it had then. */
  startedWith({ atUs, records, incarnation }: Remembered): void {
    this.#records.clear()
    for (const [key, packed] of records) this.#records.set(key, packed)
    this.#incarnation = incarnation
    this.#forgot(atUs)
  }

  take(lines: readonly Carried[]): void {
    for (let at = 0; at < lines.length; ) {
      const call = lines[at++] as Carried
      const inside: Carried[] = []
      while (lines[at]?.inScript) inside.push(lines[at++] as Carried)
      this.#call(call, inside)
    }
  }

  #call({ atUs, words }: Carried, inside: readonly Carried[]): void {
    const [name = '', what] = words
    if (/^flush(all|db)$/i.test(name)) {
      this.#records.clear()
      this.#incarnation = undefined
      this.#forgot(atUs)
    }
    // A script that the node doesn't know (NOSCRIPT) made no calls.
    if (inside.length === 0 || !/^eval(sha)?$/i.test(name)) return
    if (what === this.#script.sha1 || what === this.#source) this.#batch(atUs, words, inside)
    else for (const { words: inner } of inside) this.#membership(atUs, inner)
  }

  get #source(): string {
    return Buffer.from(this.#script.source).toString('latin1')
  }

  /** An incarnation is given or taken by scripts of their own (`membership.lua`). */
  #membership(atUs: number, [name = '', ...args]: readonly string[]): void {
    if (!args.includes(INCARNATION_KEY)) return
    if (/^set$/i.test(name)) {
      this.#incarnation = args[1]
      if (!this.#votes) this.#note(atUs, { kind: 'votes', node: this.#node })
      this.#votes = true
    }
    if (/^del$/i.test(name)) {
      this.#incarnation = undefined
      if (this.#votes) this.#forgot(atUs)
    }
  }

  #batch(atUs: number, words: readonly string[], inside: readonly Carried[]): void {
    const count = Number(words[2])
    const [incarnation, , bytes = ''] = words.slice(3 + count)
    const frames = framesOf(words.slice(4, 3 + count), bytes)
    const counted = this.#votes && incarnation === this.#incarnation
    const lookedUs = inside[0]?.atUs ?? atUs
    for (const frame of frames) {
      if (frames.filter(({ key }) => key === frame.key).length > 1) this.twice.add(frame.key)
      const own = inside.filter(({ words: [, key] }) => key === frame.key)
      this.#frame(atUs, lookedUs, frame, own, counted)
    }
  }

  #frame(atUs: number, lookedUs: number, frame: Frame, own: readonly Carried[], counted: boolean): void {
    const { key } = frame
    // The script's time lies between its call and its first inner call, microseconds apart. A lease may end between
    // them: a command that wrote has seen its end, one that did not may not have.
    const [calledMs, lookedMs] = [Math.floor(atUs / 1_000), Math.floor(lookedUs / 1_000)]
    const before = this.#kept(key, calledMs).record
    const wrote = own.filter(({ words }) => this.#write(words, lookedMs)).length > 0
    const after = this.#kept(key, wrote ? lookedMs : calledMs)
    if (frame.bytes[0] === 'A' && wrote) this.#note(atUs, { kind: 'told', node: this.#node, key, after })
    const command = commandOf(frame)
    if (command === undefined) return
    const answer = wrote ? answerOf(command, after) : undefined
    this.#note(atUs, {
      kind: 'executed',
      node: this.#node,
      command,
      answer: answer ?? { kind: 'quarantined', nodeMs: after.nodeMs },
      counted: counted && answer !== undefined,
      before,
      after,
    })
  }

  /** Whether the node wrote. */
  #write([name = '', key = '', ...args]: readonly string[], nodeMs: number): boolean {
    const there = this.#packed(key, nodeMs)
    switch (name.toUpperCase()) {
      case 'SET': {
        const options = args.slice(1).map((word) => word.toUpperCase())
        if (options.includes('NX') && there !== undefined) return false
        const number = (option: string) => Number(args[options.indexOf(option) + 2])
        const expiresMs = options.includes('PXAT')
          ? number('PXAT')
          : options.includes('PX')
            ? nodeMs + number('PX')
            : Infinity
        this.#records.set(key, { bytes: args[0] ?? '', expiresMs })
        return true
      }
      case 'SETRANGE': {
        const [offset, bytes = ''] = [Number(args[0]), args[1]]
        const { bytes: old = '', expiresMs = Infinity } = there ?? {}
        this.#records.set(key, {
          bytes: old.slice(0, offset) + bytes + old.slice(offset + bytes.length),
          expiresMs,
        })
        return true
      }
      case 'DEL':
        return this.#records.delete(key)
      case 'GET':
      case 'GETRANGE':
      case 'STRLEN':
      case 'PTTL':
      // Of the quarantine, which is no record.
      case 'HGET':
      case 'HSET':
        return false
      default:
        throw new Error(`the script does ${name} to a record, which is not known here`)
    }
  }

  #packed(key: string, nodeMs: number): Packed | undefined {
    const there = this.#records.get(key)
    return there !== undefined && there.expiresMs > nodeMs ? there : undefined
  }

  #kept(key: string, nodeMs: number): Kept {
    const there = this.#packed(key, nodeMs)
    return { record: unpacked(there), nodeMs, expiresNodeMs: there?.expiresMs ?? nodeMs }
  }

  #forgot(atUs: number): void {
    const nodeMs = Math.floor(atUs / 1_000)
    const records = new Map([...this.#records.keys()].map((key) => [key, this.#kept(key, nodeMs)] as const))
    this.#votes = false
    this.#note(atUs, { kind: 'forgot', node: this.#node, nodeMs, records })
  }

  #note(atUs: number, event: Event): void {
    this.events.push({ atUs, event })
  }
}

function unpacked(packed: Packed | undefined): NodeRecord | undefined {
  return packed === undefined ? undefined : unpackRecord(Buffer.from(packed.bytes, 'latin1'))
}

function framesOf(keys: readonly string[], bytes: string): readonly Frame[] {
  let at = 0
  return keys.map((key) => {
    const size = Number(bytes.slice(at + 165, at + FRAME))
    const frame = {
      key,
      bytes: bytes.slice(at, at + FRAME),
      rest: bytes.slice(at + FRAME, at + FRAME + size),
    }
    at += FRAME + size
    return frame
  })
}

/** The other way round than `src/redis/batch.ts`; undefined for what is no command of the record's protocol. */
function commandOf({ key, bytes, rest }: Frame): RecordCommand | undefined {
  const [token, accepted] = [parseToken(bytes.slice(1, 17)), parseToken(bytes.slice(17, 33))]
  const keyTtlMs = Number(bytes.slice(149, 165))
  const by = { key, token, owner: bytes.slice(33, 65), keyTtlMs }
  const work = { ...by, fingerprint: bytes.slice(69, 133) }
  const [attempt, leaseMs] = [Number(bytes.slice(65, 69)), Number(bytes.slice(133, 149))]
  switch (bytes[0]) {
    case 'C':
      return { kind: 'claim', ...work, leaseMs }
    case 'N':
    case 'U':
      return {
        kind: 'renew',
        ...work,
        attempt,
        leaseMs,
        ...(bytes[0] === 'U' ? { raises: true as const } : {}),
      }
    case 'D': {
      const told = accepted === NO_TOKEN ? {} : { acceptedToken: accepted }
      return { kind: 'complete', ...work, attempt, outcome: Buffer.from(rest, 'latin1'), ...told }
    }
    case 'R':
    case 'W':
    case 'F':
      return {
        kind: 'release',
        ...by,
        ...(bytes[0] === 'W' ? { withdraws: true as const } : {}),
        ...(bytes[0] === 'F' ? { forgets: true as const } : {}),
      }
    default:
      return undefined
  }
}

/** A claim that wrote was granted. Other answers are not shown; the record says what the command did. */
function answerOf({ kind }: RecordCommand, { record, nodeMs }: Kept): NodeAnswer | undefined {
  if (kind !== 'claim' || record?.state !== 'claimed') return undefined
  return { kind: 'granted', attempt: record.attempt, nodeMs }
}
