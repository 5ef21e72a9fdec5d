/**
 * A node that never sees an outcome: outcomes are encrypted on their way to it and decrypted on their way back.
 *
 * Stands in front of any `RecordNode`, so that the record protocol above it knows nothing of keys. An outcome that
 * can't be decrypted is passed on as it is: its first byte makes it a damaged outcome (`stored-outcome.ts`), which is
 * neither replayed nor executed again.
 */

import type { NodeAnswer, RecordNode } from '../ports.ts'
import type { RecordCommand } from '../record/record.ts'
import { type KeyRing, open, seal } from './key-ring.ts'

export function encryptedNode(node: RecordNode, ring: KeyRing): RecordNode {
  return {
    name: node.name,
    execute: async (command) => opened(await node.execute(encrypted(command, ring)), command.key, ring),
  }
}

function encrypted(command: RecordCommand, ring: KeyRing): RecordCommand {
  return command.kind === 'complete'
    ? { ...command, outcome: seal(ring, command.key, command.outcome) }
    : command
}

function opened(answer: NodeAnswer, key: string, ring: KeyRing): NodeAnswer {
  const plainOf = (bytes: Buffer): Buffer => {
    const result = open(ring, key, bytes)
    return result.kind === 'opened' ? result.plain : bytes
  }
  if (answer.kind === 'completed') return { ...answer, outcome: plainOf(answer.outcome) }
  if (answer.kind === 'record' && answer.record?.state === 'completed')
    return { ...answer, record: { ...answer.record, outcome: plainOf(answer.record.outcome) } }
  return answer
}
