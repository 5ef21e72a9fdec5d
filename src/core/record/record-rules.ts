/**
 * What each command does to the record of one identity on one node.
 *
 * Owns the rules of the record protocol for a single node, as pure functions of (record, command, node time). The
 * embedded node runs on them; the Lua scripts under `redis/lua` are the same rules on Redis, and a property-based test
 * compares the two. It knows nothing of majorities.
 */

import { ATTEMPT_MAX, NO_OWNER, type NodeRecord, type RecordAnswer, type RecordCommand } from './record.ts'
import { millisecondOf, NO_TOKEN, type Token } from './token.ts'

/** What a command does: the answer, and where the record changes, the new record and how long it is kept. */
type Effect = {
  readonly answer: RecordAnswer
  readonly write?: { readonly record: NodeRecord; readonly ttl: { readonly ms: number } | 'keep' }
}

/**
 * Applies one command to one record at the node's time `nodeMs`.
 *
 * @param found undefined where the node has none
 * @param maxTokenAheadMs how far a token may lie ahead of the node's clock before it is refused as `skewed`, so that
 *   one wild clock cannot poison a key
 * @param ttlMs how long the node still keeps the record
 */
export function applyCommand(
  found: NodeRecord | undefined,
  command: RecordCommand,
  nodeMs: number,
  maxTokenAheadMs: number,
  ttlMs = Number.POSITIVE_INFINITY,
): Effect {
  const record = whatStands(found, nodeMs)
  switch (command.kind) {
    case 'claim':
      return claim(record, command, nodeMs, maxTokenAheadMs, ttlMs)
    case 'renew':
      return renew(record, command, nodeMs, maxTokenAheadMs)
    case 'complete':
      return complete(record, command, nodeMs)
    case 'release':
      return release(record, command, nodeMs, maxTokenAheadMs)
    case 'read':
      return { answer: { kind: 'record', record, nodeMs } }
  }
}

/** What is left of a record at `nodeMs`: once the time of its outcome is over, a promise. */
export function whatStands(record: NodeRecord | undefined, nodeMs: number): NodeRecord | undefined {
  if (record?.state !== 'completed' || record.overAtNodeMs === undefined) return record
  return record.overAtNodeMs < nodeMs ? { state: 'released', fence: record.fence } : record
}

/**
 * Whether a command grants a new claim: work still to be done, and an outcome that will take room. A node that takes no
 * new claims refuses exactly these. A claim by the lease's own holder, or of an expired lease, begins no record: its room
 * was there when it was granted.
 */
export function beginsWork(before: NodeRecord | undefined, { answer }: Effect): boolean {
  return answer.kind === 'granted' && before?.state !== 'claimed'
}

function claim(
  record: NodeRecord | undefined,
  command: Extract<RecordCommand, { kind: 'claim' }>,
  nodeMs: number,
  maxTokenAheadMs: number,
  ttlMs: number,
): Effect {
  const { token, owner } = command
  if (isTooFarAhead(token, nodeMs, maxTokenAheadMs)) return { answer: { kind: 'skewed', nodeMs } }
  const granted = (attempt: number, claimedAtNodeMs = nodeMs): Effect => ({
    answer: { kind: 'granted', attempt, nodeMs },
    write: {
      record: claimedBy({ ...command, attempt }, claimedAtNodeMs, nodeMs),
      ttl: { ms: command.keyTtlMs },
    },
  })
  const stale = (fence: Token): Effect => ({ answer: { kind: 'stale', fence, nodeMs } })

  if (record === undefined) return granted(1)
  switch (record.state) {
    case 'completed': {
      const { acceptedToken, attempt, fingerprint, outcome } = record
      const known = { acceptedToken, attempt, fingerprint, outcome, nodeMs, ...copiedMark(record) }
      if (token > record.fence) {
        const promised = { ...record, fence: token, owner }
        const keptMs = command.leaseMs + maxTokenAheadMs
        return {
          answer: { kind: 'completed', fence: token, promised: true, ...known },
          write:
            ttlMs < keptMs
              ? {
                  record: { ...promised, overAtNodeMs: record.overAtNodeMs ?? nodeMs + ttlMs },
                  ttl: { ms: keptMs },
                }
              : { record: promised, ttl: 'keep' },
        }
      }
      const promised = token === record.fence && owner === record.owner
      return { answer: { kind: 'completed', fence: record.fence, promised, ...known } }
    }
    case 'claimed': {
      const remainingMs = Math.max(0, record.leaseUntilNodeMs - nodeMs)
      if (record.fingerprint !== command.fingerprint) {
        const { fence, fingerprint } = record
        return { answer: { kind: 'mismatch', fence, remainingMs, fingerprint, nodeMs } }
      }
      if (owner === record.owner && remainingMs > 0 && record.kept === undefined) {
        // The same claimant again, in a later round or a repeated message: not a new attempt. A claim that is kept is
        // worked under, perhaps by another call of the same session: it refuses its own claimant as everybody.
        return token >= record.fence ? granted(record.attempt, record.claimedAtNodeMs) : stale(record.fence)
      }
      if (remainingMs > 0) {
        const { fence, fingerprint, attempt } = record
        return { answer: { kind: 'held', fence, remainingMs, fingerprint, attempt, nodeMs } }
      }
      return token > record.fence ? granted(Math.min(ATTEMPT_MAX, record.attempt + 1)) : stale(record.fence)
    }
    case 'released':
      return token > record.fence ? granted(1) : stale(record.fence)
  }
}

type Claimed = Extract<NodeRecord, { state: 'claimed' }>

function claimedBy(
  command: Pick<
    Extract<RecordCommand, { kind: 'renew' }>,
    'token' | 'owner' | 'leaseMs' | 'fingerprint' | 'attempt'
  >,
  claimedAtNodeMs: number,
  nodeMs: number,
): Claimed {
  const { token: fence, owner, attempt, fingerprint } = command
  const leaseUntilNodeMs = nodeMs + command.leaseMs
  return { state: 'claimed', fence, owner, leaseUntilNodeMs, attempt, fingerprint, claimedAtNodeMs }
}

function renew(
  record: NodeRecord | undefined,
  command: Extract<RecordCommand, { kind: 'renew' }>,
  nodeMs: number,
  maxTokenAheadMs: number,
): Effect {
  const { token, owner } = command
  // As for a claim: a fence lifted that far ahead keeps every claimant out until then. At the fence nothing is lifted.
  if ((record === undefined || token > record.fence) && isTooFarAhead(token, nodeMs, maxTokenAheadMs))
    return { answer: { kind: 'skewed', nodeMs } }
  const lost = (fence: Token): Effect => ({ answer: { kind: 'lost', fence, nodeMs } })
  const renewed = (claimedAtNodeMs: number, kept = command.raises === undefined): Effect => ({
    answer: { kind: 'renewed', nodeMs },
    write: {
      record: { ...claimedBy(command, claimedAtNodeMs, nodeMs), ...(kept ? { kept } : {}) },
      ttl: { ms: command.keyTtlMs },
    },
  })

  // The record expired, or never reached this node: a renewal also repairs it.
  if (record === undefined) return renewed(nodeMs)
  if (token < record.fence) return lost(record.fence)
  switch (record.state) {
    case 'completed':
      // Our own outcome, which this node took before a majority did: the lease goes on until a majority has it.
      return record.acceptedToken === token && record.owner === owner
        ? { answer: { kind: 'renewed', nodeMs } }
        : lost(record.fence)
    case 'released':
      return token > record.fence ? renewed(nodeMs) : lost(record.fence)
    case 'claimed': {
      if (record.owner === owner) {
        if (command.raises === undefined || record.kept === undefined) return renewed(record.claimedAtNodeMs)
        return token > record.fence ? lost(record.fence) : renewed(record.claimedAtNodeMs, true)
      }
      const expired = record.leaseUntilNodeMs <= nodeMs
      return expired && token > record.fence ? renewed(nodeMs) : lost(record.fence)
    }
  }
}

function complete(
  record: NodeRecord | undefined,
  command: Extract<RecordCommand, { kind: 'complete' }>,
  nodeMs: number,
): Effect {
  const { token, owner, acceptedToken: chosenAt } = command
  const recorded = (claimedAtNodeMs: number): Effect => ({
    answer: { kind: 'recorded', nodeMs },
    write: {
      record: {
        state: 'completed',
        fence: token,
        owner,
        acceptedToken: chosenAt ?? token,
        attempt: command.attempt,
        fingerprint: command.fingerprint,
        claimedAtNodeMs,
        outcome: command.outcome,
      },
      ttl: { ms: command.keyTtlMs },
    },
  })

  if (record === undefined)
    return chosenAt === undefined ? recorded(nodeMs) : { answer: { kind: 'fenced', fence: NO_TOKEN, nodeMs } }
  const accepted =
    record.state === 'completed' &&
    record.copied === undefined &&
    record.acceptedToken === (chosenAt ?? token)
  // It accepted this very outcome at this very ballot, and that stays true whatever it promised since.
  if (accepted && record.outcome.equals(command.outcome)) return { answer: { kind: 'recorded', nodeMs } }
  const ours = token === record.fence && record.state !== 'released' && record.owner === owner
  // One ballot has one value: another outcome at the same ballot is refused, also from the same holder. And an adopted
  // outcome replaces only the promise that was made for it: where that promise expired with the record, another
  // claimant may hold the key under a smaller token.
  const older = record.state === 'completed' && record.acceptedToken < (chosenAt ?? token)
  const takes =
    chosenAt === undefined
      ? token > record.fence || (ours && !accepted)
      : ours && (record.state === 'claimed' || older)
  if (takes) return recorded(record.state === 'released' ? nodeMs : record.claimedAtNodeMs)
  if (record.state === 'completed') {
    const { fence, acceptedToken, attempt, fingerprint, outcome } = record
    return {
      answer: {
        kind: 'completed',
        fence,
        promised: false,
        acceptedToken,
        attempt,
        fingerprint,
        outcome,
        nodeMs,
        ...copiedMark(record),
      },
    }
  }
  return { answer: { kind: 'fenced', fence: record.fence, nodeMs } }
}

function release(
  record: NodeRecord | undefined,
  command: Extract<RecordCommand, { kind: 'release' }>,
  nodeMs: number,
  maxTokenAheadMs: number,
): Effect {
  const { token, owner, keyTtlMs } = command
  const released: Effect = {
    answer: { kind: 'released', nodeMs },
    write: { record: { state: 'released', fence: token }, ttl: { ms: keyTtlMs } },
  }
  const isBelow = command.forgets && record !== undefined && token > record.fence
  if (record === undefined || isBelow || (record.state === 'released' && token >= record.fence)) {
    // The claim may still be on its way, over a connection that died: raise the fence to meet it. A release of a claim
    // too far in the future must not raise it, or no claimant could take the key until that future.
    if (!isTooFarAhead(token, nodeMs, maxTokenAheadMs)) return released
    // What is to be forgotten would stand: that is no success.
    return { answer: command.forgets ? { kind: 'skewed', nodeMs } : released.answer }
  }
  if (record.state !== 'claimed' || record.fence !== token || record.owner !== owner) {
    return { answer: { kind: 'not_owner', fence: record.fence, nodeMs } }
  }
  const { kept, ...claimed } = record
  if (command.withdraws && kept) return { answer: { kind: 'not_owner', fence: record.fence, nodeMs } }
  if (record.attempt === 1) return released
  return {
    answer: { kind: 'released', nodeMs },
    write: {
      record: { ...claimed, owner: NO_OWNER, leaseUntilNodeMs: 0, attempt: record.attempt - 1 },
      ttl: { ms: keyTtlMs },
    },
  }
}

function copiedMark(record: Extract<NodeRecord, { state: 'completed' }>): { readonly copied?: true } {
  return record.copied === undefined ? {} : { copied: record.copied }
}

function isTooFarAhead(token: Token, nodeMs: number, maxTokenAheadMs: number): boolean {
  return millisecondOf(token) > nodeMs + maxTokenAheadMs
}
