/** Sealed outcomes: what a node sees, who can open it, and that the record protocol does not notice. */
import { describe, expect, test } from 'vitest'
import { createLeases } from '../../../src/core/claims/leases.ts'
import { SILENT } from '../../../src/core/events.ts'
import { encryptedNode } from '../../../src/core/nodes/encrypted-node.ts'
import { open, parseKeyRing, seal } from '../../../src/core/nodes/key-ring.ts'
import { createEmbeddedNodes } from '../../../src/embedded/node.ts'
import { createRedlockQuorum } from '../../../src/redlock/rounds.ts'
import { systemRandom } from '../../../src/system/random.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const line = (name: string, byte: number) => `${name} ${Buffer.alloc(32, byte).toString('base64')}`
const ringOf = (...lines: string[]) => {
  const parsed = parseKeyRing(lines.join('\n'))
  if (parsed.kind === 'refused') throw new Error(parsed.reason)
  return parsed.ring
}
const plain = Buffer.from('a card number')

describe('sealing', () => {
  test('the first key seals, and every key of the ring opens', () => {
    const old = ringOf(line('2025', 1))
    const rotated = ringOf('# the new one first', line('2026', 2), '', line('2025', 1))
    expect(open(rotated, 'r', seal(old, 'r', plain))).toEqual({ kind: 'opened', plain })
    expect(open(rotated, 'r', seal(rotated, 'r', plain))).toEqual({ kind: 'opened', plain })
    expect(open(old, 'r', seal(rotated, 'r', plain))).toMatchObject({ kind: 'refused' })
    expect(open(ringOf(line('2025', 9)), 'r', seal(old, 'r', plain))).toMatchObject({ kind: 'refused' })
  })

  test('nothing of the content is to be seen, and the same outcome is the same bytes', () => {
    const ring = ringOf(line('k', 1))
    const sealed = seal(ring, 'r', plain)
    expect(sealed.includes('card')).toBe(false)
    expect(seal(ring, 'r', plain).equals(sealed)).toBe(true)
    expect(seal(ring, 's', plain).equals(sealed)).toBe(false)
    expect(seal(ring, 'r', Buffer.from('a card numbeR')).subarray(3, 15).equals(sealed.subarray(3, 15))).toBe(
      false,
    )
  })

  test('moved to another record, or with any bit changed, it does not open', () => {
    const ring = ringOf(line('k', 1))
    const sealed = seal(ring, 'r', plain)
    expect(open(ring, 's', sealed)).toMatchObject({ kind: 'refused' })
    for (let bit = 0; bit < sealed.length * 8; bit += 1) {
      const flipped = Buffer.from(sealed)
      flipped.writeUInt8(flipped.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
      expect(open(ring, 'r', flipped).kind, `bit ${bit}`).not.toBe('opened')
    }
    for (let length = 1; length < sealed.length; length += 1)
      expect(open(ring, 'r', sealed.subarray(0, length)).kind).toBe('refused')
  })

  test.each<[what: string, content: string]>([
    ['nothing', '\n# only this\n'],
    ['no key', 'k'],
    ['a short key', `k ${Buffer.alloc(16).toString('base64')}`],
    ['a long key', `k ${Buffer.alloc(33).toString('base64')}`],
    ['no base64', `k ${'!'.repeat(44)}`],
    ['a third word', `${line('k', 1)} x`],
    ['a name that is none', line('a:b', 1)],
    ['a name twice', `${line('k', 1)}\n${line('k', 2)}`],
  ])('a file with %s is refused', (_what, content) => {
    expect(parseKeyRing(content).kind).toBe('refused')
  })
})

describe('the record protocol on sealed nodes', () => {
  const clock = new VirtualClock()
  const outcome = { kind: 'result', result: 'secret result', completedAtWallMs: 1 } as const
  const request = {
    key: 'dedup:t:e:v:k',
    fingerprint: 'f'.repeat(64),
    leaseMs: 10_000,
    retentionMs: 60_000,
    budgetMs: 100,
  }
  const leasesOn = (nodes: ReturnType<typeof createEmbeddedNodes>, ring: ReturnType<typeof ringOf>) => {
    const sealed = nodes.map((node) => encryptedNode(node, ring))
    const quorum = createRedlockQuorum({ nodes: sealed, clock, events: SILENT })
    return createLeases({ quorum, clock, random: systemRandom, events: SILENT })
  }

  test('an outcome is replayed as it was, and no node has seen it', async () => {
    const nodes = createEmbeddedNodes(5, clock, 10_000, SILENT)
    const leases = leasesOn(nodes, ringOf(line('k', 1)))
    const claimed = await leases.claim(request)
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    expect(await leases.complete(claimed.lease, outcome)).toEqual({ kind: 'recorded' })
    // Asked again by one whose ring was rotated meanwhile: still the same outcome.
    const rotated = leasesOn(nodes, ringOf(line('new', 2), line('k', 1)))
    expect(await rotated.complete(claimed.lease, { ...outcome, completedAtWallMs: 2 })).toEqual({
      kind: 'recorded',
    })
    expect(await rotated.claim(request)).toMatchObject({ kind: 'duplicate', outcome })
    for (const node of nodes) {
      const answer = await node.execute({ kind: 'read', key: request.key })
      if (answer.kind !== 'record' || answer.record?.state !== 'completed') throw new Error(answer.kind)
      expect(answer.record.outcome.includes('secret')).toBe(false)
    }
  })

  test('without the key it is damaged: neither shown nor carried out again', async () => {
    const nodes = createEmbeddedNodes(5, clock, 10_000, SILENT)
    const leases = leasesOn(nodes, ringOf(line('k', 1)))
    const claimed = await leases.claim(request)
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    await leases.complete(claimed.lease, outcome)
    const stranger = leasesOn(nodes, ringOf(line('other', 3)))
    expect(await stranger.claim(request)).toEqual({ kind: 'damaged' })
    expect(await stranger.read(request.key)).toEqual({ kind: 'damaged' })
  })

  test('outcomes from before there was a key ring are read as they are', async () => {
    const nodes = createEmbeddedNodes(5, clock, 10_000, SILENT)
    const quorum = createRedlockQuorum({ nodes, clock, events: SILENT })
    const before = createLeases({ quorum, clock, random: systemRandom, events: SILENT })
    const claimed = await before.claim(request)
    if (claimed.kind !== 'granted') throw new Error(claimed.kind)
    await before.complete(claimed.lease, outcome)
    expect(await leasesOn(nodes, ringOf(line('k', 1))).claim(request)).toMatchObject({
      kind: 'duplicate',
      outcome,
    })
  })
})
