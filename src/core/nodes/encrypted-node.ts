/**
 * A node that never sees an outcome, and is believed none of its own: outcomes are encrypted on their way to it and decrypted on their way
 * back.
 *
 * Stands in front of any `RecordNode`, so that the record protocol above it knows nothing of keys. An outcome that can't be decrypted, or
 * that was not encrypted, is passed on with a first byte that makes it a damaged outcome (`stored-outcome.ts`), which is neither replayed
 * nor executed again. It stays one when it is written to other nodes: encrypted as it came, it would be believed from then on.
 */

import type { NodeAnswer, RecordNode } from '../ports.ts'
import { isOurs } from '../record/own-keys.ts'
import type { RecordCommand } from '../record/record.ts'
import { asAltered, asUnencrypted } from '../record/stored-outcome.ts'
import type { Token } from '../record/token.ts'
import { type KeyRing, open, seal } from './key-ring.ts'

/** @param ring asked at each command and at each answer: its file may have changed since */
export function encryptedNode(node: RecordNode, ring: () => KeyRing): RecordNode {
  return {
    name: node.name,
    execute: async (command) => opened(await node.execute(encrypted(command, ring())), command.key, ring()),
  }
}

function encrypted(command: RecordCommand, ring: KeyRing): RecordCommand {
  if (command.kind !== 'complete' || ring.writesPlain) return command
  const { key, token, acceptedToken = token, outcome } = command
  return { ...command, outcome: seal(ring, { key, acceptedToken }, outcome) }
}

type Accepted = { readonly acceptedToken: Token; readonly outcome: Buffer }

function opened(answer: NodeAnswer, key: string, ring: KeyRing): NodeAnswer {
  const plainOf = ({ acceptedToken, outcome: bytes }: Accepted): Buffer => {
    const result = open(ring, { key, acceptedToken }, bytes)
    if (result.kind === 'opened') return result.plain
    if (result.kind === 'refused') return result.why === 'altered' ? asAltered(bytes) : bytes
    // Keys for our own use have no outcome of a request. The secret of reservation ids stays for years, and may be older than the ring.
    return ring.readsPlain || isOurs(key) ? bytes : asUnencrypted(bytes)
  }
  if (answer.kind === 'completed') return { ...answer, outcome: plainOf(answer) }
  if (answer.kind === 'record' && answer.record?.state === 'completed')
    return { ...answer, record: { ...answer.record, outcome: plainOf(answer.record) } }
  return answer
}
