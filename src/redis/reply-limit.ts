/**
 * Ends a connection over which a node sends more than what it was asked for can be.
 *
 * The client keeps what it has of a reply until the reply is whole, so a node whose reply has no end would fill the memory of each
 * sidecar. What counts is what came since a reply was whole; how much that may be follows from the command that waits for it. A
 * connection that is ended so is dialled again, and the others go on: the reason of its state says the number.
 */

import type { Redis } from 'ioredis'

/** A command that says how many records its reply may have. */
export type AsksForRecords = { readonly records: number }

/** A look, a page of keys, a queue of waiters, a few hundred pulses: some KiB each. */
const REPLY_BYTES_MAX = 1024 * 1024
/** Up to ten thousand entries of the audit log are read at once. */
const ENTRIES_BYTES_MAX = 32 * 1024 * 1024
/** The head of an outcome, its header and what encryption adds. */
const RECORD_OVERHEAD_BYTES = 256 * 1024
/** Another sidecar may keep larger outcomes than this one, while its configuration is rolled out. */
const LARGER_ELSEWHERE = 4
/** What no setting exceeds. */
const OUTCOME_BYTES_MAX = 64 * 1024 * 1024

/** The queue of commands that wait for a reply is ioredis' own; its version is exact in package.json. */
type Waiting = {
  readonly commandQueue: {
    peekFront(): { readonly command: { readonly name: string } & Partial<AsksForRecords> } | undefined
  }
}

/** @param outcomeBytesMax that this sidecar stores; absent: what any may */
export function limitReplies(client: Redis, outcomeBytesMax = OUTCOME_BYTES_MAX): void {
  // Another queue for each connection.
  const waiting = () => (client as unknown as Waiting).commandQueue.peekFront()
  client.on('connect', () => {
    const { stream } = client
    let bytes = 0
    let before = waiting()
    stream.prependListener('data', () => {
      before = waiting()
    })
    // After ioredis, which has taken every reply from the queue that is whole by then.
    stream.on('data', (part: Buffer) => {
      const next = waiting()
      bytes = next === before ? bytes + part.length : 0
      const limit = limitOf(next?.command, outcomeBytesMax)
      if (bytes <= limit) return
      const asked = next === undefined ? 'nothing' : next.command.name
      stream.destroy(
        new Error(`its reply to ${asked} is longer than ${limit} bytes, and it has no end so far`),
      )
    })
  })
}

function limitOf(
  command: ({ readonly name: string } & Partial<AsksForRecords>) | undefined,
  outcomeBytesMax: number,
): number {
  if (command?.name === 'xrevrange') return ENTRIES_BYTES_MAX
  const records = command?.records ?? 0
  return REPLY_BYTES_MAX + records * (RECORD_OVERHEAD_BYTES + LARGER_ELSEWHERE * outcomeBytesMax)
}
