/**
 * The bytes that ioredis gets, argument by argument: `PreparedCommand` skips the encoding of the library, so no other
 * test would notice a wrong one. The contract suite tests the answers of a node.
 */
import type { Command, Redis } from 'ioredis'
import { describe, expect, test } from 'vitest'
import type { RecordCommand } from '../../src/core/record/record.ts'
import {
  adoptFrame,
  type Batch,
  callBatch,
  type Frame,
  frameOf,
  inspectFrame,
  standingFrame,
} from '../../src/redis/batch.ts'

const SCRIPT = { source: 'return "ä"', sha1: '5ca1ab1e'.repeat(5) }
const KEY = 'dedup:shop:test:v1:1'
const owner = '0123456789abcdef'.repeat(2)
const fingerprint = 'f'.repeat(64)
const token = 1_764_000_000_000_001
const claim = {
  kind: 'claim',
  key: KEY,
  token,
  owner,
  leaseMs: 30_000,
  fingerprint,
  keyTtlMs: 86_430_000,
} as const
const NO_OWNER = '0'.repeat(32)
const NO_FINGERPRINT = '0'.repeat(64)

/** The bytes of one call, one entry per command, one character per byte. @param replies an error is thrown */
async function sentBy(batch: Batch, replies: readonly unknown[]): Promise<readonly string[]> {
  const sent: string[] = []
  const left = [...replies]
  const client = {
    sendCommand: async (command: Command) => {
      sent.push((command.toWritable({} as never) as Buffer).toString('latin1'))
      const reply = left.shift()
      if (reply instanceof Error) throw reply
      return reply
    },
  }
  await callBatch(client as unknown as Redis, SCRIPT, batch)
  return sent
}

const batchOf = (frames: readonly Frame[], more: Partial<Batch> = {}): Batch => ({
  incarnation: 'e-1',
  maxTokenAheadMs: 10_000,
  frames,
  ...more,
})

/** As RESP has it. */
const respOf = (...args: readonly string[]) =>
  `*${args.length}\r\n${args.map((one) => `$${one.length}\r\n${one}\r\n`).join('')}`

const reply = (...lines: readonly string[]) => [['1000 1', ...lines].join('\n')]

describe('a frame, field by field', () => {
  const commands: readonly [RecordCommand, string][] = [
    [
      claim,
      `C 1764000000000001 0000000000000000 ${owner} 0001 ${fingerprint} 0000000000030000 0000000086430000 00000000`,
    ],
    [
      { ...claim, kind: 'renew', attempt: 12 },
      `N 1764000000000001 0000000000000000 ${owner} 0012 ${fingerprint} 0000000000030000 0000000086430000 00000000`,
    ],
    [
      {
        kind: 'complete',
        key: KEY,
        token,
        owner,
        fingerprint,
        attempt: 1,
        outcome: Buffer.from([1, 0, 0xff, 10]),
        keyTtlMs: 86_400_000,
      },
      `D 1764000000000001 0000000000000000 ${owner} 0001 ${fingerprint} 0000000000000000 0000000086400000 00000004 \x01\x00\xff\n`,
    ],
    [
      {
        kind: 'complete',
        key: KEY,
        token,
        owner,
        fingerprint,
        attempt: 2,
        outcome: Buffer.from('ä'),
        keyTtlMs: 1.9,
        acceptedToken: 1024,
      },
      `D 1764000000000001 0000000000001024 ${owner} 0002 ${fingerprint} 0000000000000000 0000000000000001 00000002 \xc3\xa4`,
    ],
    [
      { kind: 'release', key: KEY, token, owner, keyTtlMs: 86_430_000 },
      `R 1764000000000001 0000000000000000 ${owner} 0000 ${NO_FINGERPRINT} 0000000000000000 0000000086430000 00000000`,
    ],
    [
      { kind: 'read', key: KEY },
      `G 0000000000000000 0000000000000000 ${NO_OWNER} 0000 ${NO_FINGERPRINT} 0000000000000000 0000000000000000 00000000`,
    ],
  ]

  test.each(commands.map(([command, fields]) => [command.kind, command, fields] as const))(
    'the frame of the command %s',
    (_, command, fields) => {
      expect(frameOf(command)).toEqual({
        key: `$${KEY.length}\r\n${KEY}\r\n`,
        bytes: fields.replaceAll(' ', ''),
      })
    },
  )

  const rejoin: readonly [string, Frame, string, string][] = [
    [
      'show with the outcome',
      inspectFrame(KEY, true),
      KEY,
      `S 0000000000000000 0000000000000000 ${NO_OWNER} 0001 ${NO_FINGERPRINT} 0000000000000000 0000000000000000 00000000`,
    ],
    [
      'show without the outcome',
      inspectFrame(KEY, false),
      KEY,
      `S 0000000000000000 0000000000000000 ${NO_OWNER} 0000 ${NO_FINGERPRINT} 0000000000000000 0000000000000000 00000000`,
    ],
    [
      'standing',
      standingFrame('ab'.repeat(16)),
      'dedup::quarantine',
      `Q 0000000000000000 0000000000000000 ${'ab'.repeat(16)} 0000 ${NO_FINGERPRINT} 0000000000000000 0000000000000000 00000000`,
    ],
    [
      'adopt',
      adoptFrame(KEY, Buffer.from([0x31, 0xfe]), true, 5_000),
      KEY,
      `A 0000000000000000 0000000000000000 ${NO_OWNER} 0001 ${NO_FINGERPRINT} 0000000000000000 0000000000005000 00000002 1\xfe`,
    ],
  ]

  test.each(rejoin)('the frame of the rejoin command %s', (_, frame, key, fields) => {
    expect(frame).toEqual({ key: `$${key.length}\r\n${key}\r\n`, bytes: fields.replaceAll(' ', '') })
  })
})

describe('a call of the batch script', () => {
  const { bytes } = frameOf(claim)

  test('a call is EVALSHA with the keys, then incarnation, tolerated skew and all frames in one argument', async () => {
    const other = { ...claim, key: 'dedup:käse:test:v1:2' }
    const sent = await sentBy(batchOf([frameOf(claim), frameOf(other)]), [reply('granted 1', 'granted 1')])
    const otherKey = Buffer.from(other.key).toString('latin1')
    expect(sent).toEqual([
      respOf('evalsha', SCRIPT.sha1, '3', 'dedup::incarnation', KEY, otherKey, 'e-1', '10000', bytes + bytes),
    ])
  })

  test('a call, spelled out to the last byte', async () => {
    const sent = await sentBy(batchOf([frameOf({ kind: 'read', key: 'dedup:a' })]), [reply('absent')])
    const zeros = '0'.repeat(172)
    expect(sent).toEqual([
      `*8\r\n$7\r\nevalsha\r\n$40\r\n${SCRIPT.sha1}\r\n$1\r\n2\r\n$18\r\ndedup::incarnation\r\n$7\r\ndedup:a\r\n$3\r\ne-1\r\n$5\r\n10000\r\n$173\r\nG${zeros}\r\n`,
    ])
  })

  test('a call to a full node forbids new claims', async () => {
    const sent = await sentBy(batchOf([frameOf(claim)], { full: true }), [reply('full')])
    expect(sent).toEqual([
      respOf('evalsha', SCRIPT.sha1, '2', 'dedup::incarnation', KEY, 'e-1', '10000', bytes, 'full'),
    ])
  })

  test('a call is repeated as EVAL with the source and the same arguments where the script is missing', async () => {
    const sent = await sentBy(batchOf([frameOf(claim)]), [
      new Error('NOSCRIPT No matching script.'),
      reply('granted 1'),
    ])
    const args = ['2', 'dedup::incarnation', KEY, 'e-1', '10000', bytes]
    const source = Buffer.from(SCRIPT.source).toString('latin1')
    expect(sent).toEqual([respOf('evalsha', SCRIPT.sha1, ...args), respOf('eval', source, ...args)])
  })

  // The bytes of a call are a copy of those of the call before where only the incarnation differs, and that one may not be sent yet.
  test('the same commands to several nodes, and what else may differ from the call before', async () => {
    const [mine, other] = [frameOf(claim), frameOf({ ...claim, key: 'dedup:b' })]
    const call = (incarnation: string, ahead = '10000', ...full: readonly string[]) =>
      respOf('evalsha', SCRIPT.sha1, '2', 'dedup::incarnation', KEY, incarnation, ahead, bytes, ...full)
    const otherCall = respOf(
      'evalsha',
      SCRIPT.sha1,
      '2',
      'dedup::incarnation',
      'dedup:b',
      'e-8',
      '10000',
      bytes,
    )
    const both = ['3', 'dedup::incarnation', KEY, 'dedup:b', 'e-9', '10000', bytes + bytes]
    const calls: readonly (readonly [Batch, string])[] = [
      [batchOf([mine], { incarnation: 'e-1' }), call('e-1')],
      [batchOf([mine], { incarnation: 'e-2' }), call('e-2')],
      [batchOf([mine], { incarnation: 'e-3', maxTokenAheadMs: 20_000 }), call('e-3', '20000')],
      [batchOf([mine], { incarnation: 'e-4' }), call('e-4')],
      [batchOf([mine], { incarnation: 'e-5', full: true }), call('e-5', '10000', 'full')],
      [batchOf([mine], { incarnation: 'e-6' }), call('e-6')],
      [batchOf([mine], { incarnation: 'ä-6' }), call('\xc3\xa4-6')],
      [batchOf([mine], { incarnation: '' }), call('')],
      [batchOf([mine], { incarnation: 'e-7' }), call('e-7')],
      [batchOf([other], { incarnation: 'e-8' }), otherCall],
      [batchOf([mine], { incarnation: 'e-8' }), call('e-8')],
      [batchOf([mine, other], { incarnation: 'e-9' }), respOf('evalsha', SCRIPT.sha1, ...both)],
      [batchOf([mine], { incarnation: 'e-9' }), call('e-9')],
    ]
    const sent: Buffer[] = []
    for (const [batch] of calls) {
      const client = {
        sendCommand: async (command: Command) => {
          sent.push(command.toWritable({} as never) as Buffer)
          return reply(...batch.frames.map(() => 'granted 1'))
        },
      }
      await callBatch(client as unknown as Redis, SCRIPT, batch)
    }
    expect(sent.map((one) => one.toString('latin1'))).toEqual(calls.map(([, expected]) => expected))
  })

  test('a call is not repeated after any other error', async () => {
    await expect(sentBy(batchOf([frameOf(claim)]), [new Error('LOADING')])).rejects.toThrow('LOADING')
  })
})
