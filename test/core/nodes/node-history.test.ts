import { describe, expect, test } from 'vitest'
import { DUPLICATE_HEARTBEATS, Hearsay, hasOutlived } from '../../../src/core/nodes/hearsay.ts'
import { NodeHistory, type Shown } from '../../../src/core/nodes/node-history.ts'

/** Nodes joined a day before the polls begin. */
const JOINED_MS = 1_790_000_000_000
const BEGAN_MS = JOINED_MS + 86_400_000
const INCARNATION = `1:run:n1:${JOINED_MS}:0`

type Poll = Partial<Omit<Shown, 'counters'>> & {
  readonly own?: number
  /** What it notes of others: nonce and counter. */
  readonly notes?: Readonly<Record<string, string>>
  /** And their heartbeats. */
  readonly of?: Readonly<Record<string, number>>
  readonly atMs?: number
  readonly othersVote?: boolean
}

/** By one process, of nodes that are called by letters; each poll takes 2 ms. */
function watch() {
  const heartbeats = new Hearsay()
  const history = new NodeHistory(1_000, heartbeats)
  let nowMs = 0
  const poll = (
    name: string,
    { own = 0, notes = {}, of, atMs = nowMs + 10, othersVote = true, ...more }: Poll = {},
  ) => {
    nowMs = atMs
    const nodeMs = BEGAN_MS + atMs
    const others = new Map(Object.entries(of ?? {}))
    for (const [other, ms] of others) heartbeats.heard(name, other, '', ms, atMs)
    const shown: Shown = {
      runId: 'run',
      nodeMs,
      incarnation: INCARNATION,
      quarantine: undefined,
      cluster: undefined,
      role: 'master',
      lineage: '0',
      evictedKeys: 0,
      heartbeat: of === undefined ? undefined : { runId: 'run', nodeMs, others },
      counters: { own, others: new Map(Object.entries(notes)) },
      ...more,
    }
    return history.saw(name, shown, { sentMonoMs: atMs - 2, receivedMonoMs: atMs, othersVote })?.doubt
  }
  return { history, poll }
}

describe('the incarnation of a node', () => {
  const PROMOTED = 'c0ffee'
  const LATER = { incarnation: `1:run:n2:${JOINED_MS + 1}:0` }
  const OLDER = { incarnation: '1:run:n1:1000' }

  test.each<[what: string, polls: readonly Poll[], why: readonly unknown[]]>([
    ['that goes on', [{}, {}], [undefined, undefined]],
    ['that is a replica', [{}, { role: 'slave' }], [undefined, 'replica']],
    ['that was a replica between two polls', [{}, { lineage: PROMOTED }], [undefined, 'replica']],
    ['that was a replica before the first poll', [{ lineage: PROMOTED }], ['replica']],
    [
      'that was one before its rejoin',
      [{ incarnation: `1:run:n1:1:${PROMOTED}`, lineage: PROMOTED }],
      [undefined],
    ],
    ['that has freed what it kept for replicas', [{ incarnation: `1:run:n1:1:${PROMOTED}` }], [undefined]],
    ['that was a replica once more', [{ incarnation: '1:run:n1:1:beef', lineage: PROMOTED }], ['replica']],
    ['whose incarnation does not say its lineage', [{ ...OLDER, lineage: PROMOTED }], [undefined]],
    [
      'whose incarnation does not say it, and that was a replica between two polls',
      [OLDER, { ...OLDER, lineage: PROMOTED }, { ...OLDER, lineage: PROMOTED }],
      [undefined, 'replica', 'replica'],
    ],
    ['that rejoins', [{}, { incarnation: undefined }, LATER], [undefined, undefined, undefined]],
    [
      'that shows the incarnation of before again',
      [{}, LATER, {}],
      [undefined, undefined, 'old_incarnation'],
    ],
    [
      'that shows one again that was taken away',
      [{}, { incarnation: undefined }, {}],
      [undefined, undefined, 'old_incarnation'],
    ],
    [
      'that was restarted with the data of before',
      [{}, LATER, { runId: 'run2' }, { runId: 'run2', role: 'slave' }],
      [undefined, undefined, undefined, undefined],
    ],
    ['that evicted since it was restarted with its data', [{ runId: 'run2', evictedKeys: 1 }], ['evicted']],
    [
      'that evicted before, and has no incarnation',
      [{ incarnation: undefined, evictedKeys: 1 }],
      [undefined],
    ],
    ['that evicted before', [{ evictedKeys: 7 }, { evictedKeys: 7 }], [undefined, undefined]],
    ['that evicts', [{ evictedKeys: 7 }, { evictedKeys: 8 }], [undefined, 'evicted']],
    [
      'whose counters were reset',
      [{ evictedKeys: 7 }, { evictedKeys: 0 }, {}],
      [undefined, undefined, undefined],
    ],
    ['that evicts after a reset', [{ evictedKeys: 7 }, { evictedKeys: 3 }], [undefined, 'evicted']],
    [
      'that evicts some time after a reset',
      [{ evictedKeys: 7 }, { evictedKeys: 0 }, { evictedKeys: 3 }],
      [undefined, undefined, 'evicted'],
    ],
  ])('a node %s', (_, polls, why) => {
    const { poll } = watch()
    expect(polls.map((more) => poll('a', more))).toEqual(why)
  })

  test('an incarnation is known since it was first seen', () => {
    const { history, poll } = watch()
    expect(history.seen('a')).toBeUndefined()
    poll('a', { atMs: 5 })
    poll('a', { atMs: 6 })
    expect(history.seen('a')).toMatchObject({ incarnation: INCARNATION, sinceMonoMs: 5 })
    poll('a', { ...LATER, atMs: 7 })
    expect(history.seen('a')).toMatchObject({ ...LATER, sinceMonoMs: 7 })
  })
})

describe('the write counter of a node', () => {
  const counts = (...own: readonly number[]) => {
    const { poll } = watch()
    return own.map((one) => poll('a', { own: one }))
  }

  test('a node that shows a smaller counter than before was set back', () => {
    expect(counts(5, 5, 8, 7)).toEqual([undefined, undefined, undefined, 'set_back'])
    expect(counts(1, 0)).toEqual([undefined, 'set_back'])
  })

  test('a node that shows less than this process wrote was set back', () => {
    const { history, poll } = watch()
    poll('a', { own: 3, atMs: 2 })
    history.wrote('a', INCARNATION, 4, 5)
    expect(poll('a', { own: 3 })).toBe('set_back')
  })

  test.each<[what: string, noted: readonly string[], own: number, setBack: boolean]>([
    ['two nodes noted', ['n1:9', 'n1:9'], 8, true],
    ['one node noted', ['n1:9'], 8, false],
    ['one node noted, and another one less', ['n1:9', 'n1:8'], 8, false],
    ['two nodes noted, each another', ['n1:20', 'n1:9'], 8, true],
    ['two nodes noted of another incarnation', ['n0:50', 'n0:50'], 8, false],
    ['two nodes noted, which is not possible', ['n1:9000000000000000', 'n1:9000000000000000'], 8, false],
    ['nobody noted', ['', 'n1', 'n1:', 'n1:x', ':', 'n1:-3'], 0, false],
  ])('of a node that shows less than what %s', (_, noted, own, setBack) => {
    const { poll } = watch()
    for (const [at, note] of noted.entries()) poll(`other ${at}`, { notes: { a: note } })
    expect(poll('a', { own })).toBe(setBack ? 'set_back' : undefined)
  })

  test('what others noted while a poll was under way proves nothing about it', () => {
    const { poll } = watch()
    for (const other of ['b', 'c']) poll(other, { notes: { a: 'n1:9' }, atMs: 12 })
    expect([poll('a', { own: 8, atMs: 13 }), poll('a', { own: 8, atMs: 22 })]).toEqual([
      undefined,
      'set_back',
    ])
  })

  test('counters of another incarnation, and of another node under the same nonce, prove nothing', () => {
    const { poll } = watch()
    const next = { incarnation: `1:run:n2:${JOINED_MS + 1}:0` }
    expect([poll('a', { own: 9 }), poll('b', { own: 1 }), poll('a', { own: 1, ...next })]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  test('noted is what was seen here, or what two nodes say, of the last incarnation', () => {
    const { history, poll } = watch()
    expect(history.noteOf('a')).toBeUndefined()
    poll('a', { own: 0 })
    expect(history.noteOf('a')).toBeUndefined()
    poll('a', { own: 4 })
    expect(history.noteOf('a')).toBe('n1:4')
    poll('b', { notes: { a: 'n1:9' } })
    expect(history.noteOf('a')).toBe('n1:4')
    poll('c', { notes: { a: 'n1:7' } })
    expect(history.noteOf('a')).toBe('n1:7')
    expect(['n1:2', 'n1:3', 'n0:9', undefined].map((note) => history.isBehind('a', note))).toEqual([
      true,
      false,
      true,
      true,
    ])
    poll('a', { own: 5, incarnation: `1:run:n2:${JOINED_MS + 1}:0` })
    expect(history.noteOf('a')).toBe('n2:5')
  })
})

describe('a node that says what is not possible', () => {
  const HUGE = 9_000_000_000_000_000

  test.each([3, 5, 7, 9])('of %i nodes takes no vote of another, and is itself the one without', (count) => {
    const names = Array.from('abcdefghi').slice(0, count)
    const { history, poll } = watch()
    for (const name of names) poll(name, { own: 100 })
    const lies = Object.fromEntries(names.slice(1).map((name) => [name, `n1:${HUGE}`]))
    expect(poll('a', { own: 100, notes: lies })).toBe('impossible_claim')
    for (let round = 0; round < 5; round += 1)
      expect(names.slice(1).map((name) => poll(name, { own: 101 + round }))).toEqual(
        names.slice(1).map(() => undefined),
      )
    for (const name of names.slice(1)) expect(history.noteOf(name)).toBe('n1:105')
  })

  test.each<[what: string, said: Poll]>([
    ['more heartbeats of another node than there has been time for', { notes: { b: 'n1:400000' } }],
    ['more of an incarnation that nobody knows than since 1970', { notes: { b: `n9:${HUGE}` } }],
    ['a heartbeat that no clock can have', { of: { b: BEGAN_MS + 400 * 86_400_000 } }],
    ['more of its own than there has been time for', { own: 400_000 }],
    ['a quarantine that no sidecar can ask for', { cluster: { id: 'c1', quarantineMs: 315_360_000_000 } }],
    ['a quarantine that is no number', { cluster: { id: 'c1', quarantineMs: Number.NaN } }],
  ])('namely %s', (_, said) => {
    const { history, poll } = watch()
    poll('b', { own: 100 })
    poll('a', { own: 100 })
    expect(poll('a', { own: 101, ...said, othersVote: false })).toBeUndefined()
    expect(poll('a', { own: 101, ...said })).toBe('impossible_claim')
    expect([poll('b', { own: 101 }), history.noteOf('b')]).toEqual([undefined, 'n1:101'])
  })

  test('what two nodes say, or this process has seen, is no lie, whatever clocks show', () => {
    const { poll } = watch()
    // All clocks were ahead when it rejoined.
    const ahead = { incarnation: `1:run:n1:${BEGAN_MS + 3_600_000}:0` }
    expect([
      poll('a', { own: 5_000, ...ahead }),
      poll('b', { own: 5_000, notes: { a: 'n1:5000' }, ...ahead }),
    ]).toEqual([undefined, undefined])
  })

  // Bug: each of two nodes whose clocks had been ahead noted the other's heartbeat of then; both lost their vote when they were set right.
  test('a heartbeat that is to come, of a clock that was ahead, is no lie', () => {
    const { poll } = watch()
    const said = (about: string) => ({ own: 100, of: { [about]: BEGAN_MS + 3_600_000 } })
    expect([poll('a', said('b')), poll('b', said('a')), poll('a', said('b'))]).toEqual(
      Array(3).fill(undefined),
    )
  })
})

describe('a server under the name of another', () => {
  /** A second apart: what is noted of the node under each nonce, by some nodes. */
  function noted(by: readonly string[], ...seconds: readonly Readonly<Record<string, number>>[]) {
    const { history, poll } = watch()
    poll('a', { own: 1, atMs: 0 })
    for (const [second, notes] of seconds.entries())
      for (const [nonce, counter] of Object.entries(notes))
        for (const node of by) poll(node, { notes: { a: `${nonce}:${counter}` }, atMs: second * 1_000 })
    return { history, poll, other: () => history.duplicateOf('a', (seconds.length - 1) * 1_000) }
  }
  const counts = (from: number, seconds: number, each: number, nonce = 'n2') =>
    Array.from({ length: seconds }, (_, second) => ({ [nonce]: from + second * each }))

  test('a counter that grows on beside it, in the notes of two nodes, is that of another server', () => {
    expect(noted(['b', 'c'], ...counts(70, 10, 1)).other()).toMatchObject({ nonce: 'n2', lives: true })
    expect(noted(['b'], ...counts(70, 10, 1)).other()).toBeUndefined()
  })

  test('its own counter, and one that stands still, are none', () => {
    expect(noted(['b', 'c'], ...counts(70, 20, 0)).other()).toBeUndefined()
    expect(noted(['b', 'c'], ...counts(70, 20, 5, 'n1')).other()).toBeUndefined()
  })

  test('notes of a node that has just joined are still on their way', () => {
    const last = { n2: 500 + DUPLICATE_HEARTBEATS - 1 }
    expect(noted(['b', 'c'], { n2: 1 }, { n2: 500 }, {}, {}, {}, last).other()).toBeUndefined()
  })

  // A node whose data are of last year knows the count of then, and one of last month another: both of a rejoin that has ended.
  test('what nodes noted at different times is no growth', () => {
    const { history, poll } = noted([], {}, {}, {}, {})
    poll('b', { notes: { a: 'n2:100' }, atMs: 10_000 })
    poll('c', { notes: { a: 'n2:90000' }, atMs: 20_000 })
    expect(history.duplicateOf('a', 20_000)).toBeUndefined()
    poll('b', { notes: { a: `n2:${100 + DUPLICATE_HEARTBEATS}` }, atMs: 21_000 })
    poll('c', { notes: { a: `n2:${90_000 + DUPLICATE_HEARTBEATS}` }, atMs: 21_000 })
    expect(history.duplicateOf('a', 21_000)).toMatchObject({ nonce: 'n2', lives: true })
  })

  test('a server that is heard of no more lives no more, until that is forgotten', () => {
    const { history } = noted(['b', 'c'], ...counts(70, 10, 1))
    expect(history.duplicateOf('a', 60_000)).toMatchObject({ nonce: 'n2', lives: false })
    history.outlived('a')
    expect(history.duplicateOf('a', 60_000)).toBeUndefined()
  })

  test('what is known of another node, or of the time before a rejoin, says nothing', () => {
    const { history, poll } = noted(['b', 'c'], ...counts(70, 10, 1))
    expect(history.duplicateOf('b', 9_000)).toBeUndefined()
    poll('a', { incarnation: `1:run:n3:${JOINED_MS}:0`, atMs: 9_000 })
    expect(history.duplicateOf('a', 9_000)).toBeUndefined()
  })

  test('of two that vote both sides name the same one', () => {
    const sides = [
      ['n1', 'n2'],
      ['n2', 'n1'],
    ].map(([own, other]) => {
      const { poll } = watch()
      const incarnation = { incarnation: `1:run:${own}:${JOINED_MS}:0` }
      poll('a', { own: 1, ...incarnation, atMs: 0 })
      for (let second = 0; second < 12; second += 1)
        for (const node of ['b', 'c'])
          poll(node, { notes: { a: `${other}:${70 + second}` }, atMs: second * 1_000 })
      return poll('a', { own: 12, ...incarnation, atMs: 12_000 })
    })
    expect(sides).toEqual(['duplicate_server', undefined])
  })

  test('a quarantine outlives the other server where it began ten seconds after the last sign of it, whoever began it', () => {
    const outlived = (agoMs: number, waitedMs: number) =>
      hasOutlived({ nonce: 'n2', lives: false, agoMs }, waitedMs)
    expect([
      outlived(9_999, 0),
      outlived(10_000, 0),
      outlived(55_000, 45_001),
      outlived(55_000, 45_000),
    ]).toEqual([false, true, false, true])
  })
})

describe('a server that is used again after another one had its name', () => {
  const ago = (s: number) => BEGAN_MS - s * 1_000
  type Case = [
    what: string,
    noted: readonly (readonly [by: string, note: string, heardMs: number])[],
    heartbeatMs: number | undefined,
    stale: boolean,
  ]

  test.each<Case>([
    [
      'had its last heartbeat long before',
      [
        ['b', 'n2:9', ago(10)],
        ['c', 'n2:9', ago(10)],
      ],
      ago(60),
      true,
    ],
    ['had it long before, as one node says', [['b', 'n2:9', ago(10)]], ago(60), false],
    [
      'had it long before, as two say, one of them by a clock that was ahead',
      [
        ['b', 'n2:9', ago(10)],
        ['c', 'n2:9', ago(-500)],
      ],
      ago(60),
      true,
    ],
    [
      'was merely cut off',
      [
        ['b', 'n1:9', ago(10)],
        ['c', 'n1:9', ago(10)],
      ],
      ago(60),
      false,
    ],
    [
      'is used beside it',
      [
        ['b', 'n2:9', ago(10)],
        ['c', 'n2:9', ago(10)],
      ],
      ago(11),
      false,
    ],
    [
      'has no heartbeat',
      [
        ['b', 'n2:9', ago(10)],
        ['c', 'n2:9', ago(10)],
      ],
      undefined,
      false,
    ],
  ])('a node that %s', (_, noted, heartbeatMs, stale) => {
    const { history, poll } = watch()
    for (const [by, note, heardMs] of noted) poll(by, { notes: { a: note }, of: { a: heardMs } })
    const heartbeat =
      heartbeatMs === undefined ? undefined : { runId: 'run', nodeMs: heartbeatMs, others: new Map() }
    const shown = { ...(heartbeat && { heartbeat }), own: 9 }
    expect(poll('a', shown)).toBe(stale ? 'stale_incarnation' : undefined)
    // Its next rejoin is judged by what is seen from then on.
    expect(poll('a', shown)).toBeUndefined()
    expect(poll('z', shown)).toBeUndefined()
    expect(history.duplicateOf('a', 0)).toBeUndefined()
  })

  test('what this process saw itself counts alone', () => {
    const { poll } = watch()
    const heartbeat = (s: number, runId = 'run') => ({ runId, nodeMs: ago(s), others: new Map() })
    poll('a', { incarnation: `1:new:n2:${JOINED_MS}:0`, runId: 'new', heartbeat: heartbeat(10, 'new') })
    expect(poll('a', { heartbeat: heartbeat(60) })).toBe('stale_incarnation')
  })

  // Bug: a process that wrote to it before it had heard the second witness took its own heartbeat for one of then.
  test('what this process has written to it since proves no use of then', () => {
    const { poll } = watch()
    const heartbeat = (nodeMs: number) => ({ runId: 'run', nodeMs, others: new Map() })
    expect(poll('a', { heartbeat: heartbeat(ago(60)), atMs: 0 })).toBeUndefined()
    poll('b', { notes: { a: 'n2:9' }, of: { a: ago(10) }, atMs: 10 })
    expect(poll('a', { heartbeat: heartbeat(BEGAN_MS + 20), atMs: 20 })).toBeUndefined()
    poll('c', { notes: { a: 'n2:9' }, of: { a: ago(10) }, atMs: 30 })
    expect(poll('a', { heartbeat: heartbeat(BEGAN_MS + 520), atMs: 530 })).toBe('stale_incarnation')
  })

  test('notes of the rejoin before are on their way out', () => {
    const { poll } = watch()
    for (const by of ['b', 'c']) poll(by, { notes: { a: 'n0:9' }, of: { a: ago(55) } })
    const heartbeat = { runId: 'run', nodeMs: ago(60), others: new Map() }
    expect(poll('a', { incarnation: `1:run:n1:${ago(57)}:0`, heartbeat })).toBeUndefined()
  })
})
