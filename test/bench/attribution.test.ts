/** Which part of a request a sample of its profile belongs to, and that no time is lost on the way. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import type { Profiler } from 'node:inspector'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import {
  attribute,
  attributionOf,
  CATEGORIES,
  categoryOf,
  type Frame,
} from '../../bench/support/attribution.ts'
import { sourcePlaces } from '../../bench/support/source-places.ts'

const NODE_WRITE: readonly Frame[] = [
  { name: 'writev', place: '' },
  { name: 'writevGeneric', place: 'node:internal/stream_base_commons' },
  { name: 'Writable.uncork', place: 'node:internal/streams/writable' },
]
const frame = (place: string): Frame => ({ name: 'f', place })

describe('a sample belongs to the innermost frame that has a category', () => {
  test.each<[string, readonly Frame[], string | undefined]>([
    ['waiting', [{ name: '(idle)', place: '' }], undefined],
    [
      'garbage',
      [{ name: '(garbage collector)', place: '' }, frame('src/core/settle.ts')],
      'garbage collection',
    ],
    [
      'native code without JavaScript',
      [{ name: '(program)', place: '' }],
      'native code: reads, HTTP parser, system calls of the loop',
    ],
    ['the listener', [frame('src/http/server/listener.ts')], 'parsing and arrival'],
    ['the fingerprint', [frame('src/core/request/fingerprint.ts')], 'fingerprint and identity'],
    [
      'a hash for it',
      [{ name: 'oneShotDigest', place: '' }, frame('src/core/request/fingerprint.ts')],
      'fingerprint and identity',
    ],
    ['a claim', [frame('src/core/claims/claim.ts')], 'claim rounds'],
    [
      'redlock',
      [frame('node_modules/redlock/dist/esm/index.js'), frame('src/redlock/rounds.ts')],
      'claim rounds',
    ],
    ['what an outcome settles', [frame('src/core/settle.ts')], 'completion'],
    ['the adapter of a node', [frame('src/redis/batch.ts')], "nodes' client"],
    ['its replies', [frame('node_modules/redis-parser/lib/parser.js')], "nodes' client"],
    ['the call of the application', [frame('node_modules/undici/lib/dispatcher/client.js')], 'upstream call'],
    ['the answer', [frame('src/http/server/send.ts')], 'answer'],
    ['a metric', [frame('src/observe/counting.ts'), frame('src/core/claims/claim.ts')], 'telemetry'],
    ['a file that no row names', [frame('src/system/clock.ts')], 'other of the sidecar'],
    [
      'a promise that Node continues',
      [frame('node:internal/process/task_queues')],
      'event loop, timers and streams of Node',
    ],
    ['a write to a node', [...NODE_WRITE, frame('node_modules/ioredis/built/Redis.js')], 'writes to nodes'],
    [
      'a write to the application',
      [...NODE_WRITE, frame('node_modules/undici/lib/x.js')],
      'writes to the application',
    ],
    [
      'a write to the client',
      [...NODE_WRITE, frame('node:_http_outgoing'), frame('src/http/server/send.ts')],
      'writes to clients',
    ],
    ['a write of nobody', NODE_WRITE, 'event loop, timers and streams of Node'],
  ])('%s', (_, stack, category) => {
    expect(categoryOf(stack)).toBe(category)
  })
})

const node = (id: number, name: string, url: string, children: number[] = []): Profiler.ProfileNode => ({
  id,
  callFrame: { functionName: name, scriptId: '0', url, lineNumber: 0, columnNumber: 0 },
  children,
})
const profile: Profiler.Profile = {
  nodes: [
    node(1, '(root)', '', [2, 3, 5]),
    node(2, '(idle)', ''),
    node(3, 'send', 'src/http/server/send.ts', [4]),
    node(4, 'writev', ''),
    node(5, '(program)', ''),
  ],
  startTime: 0,
  endTime: 1_000,
  samples: [2, 3, 4, 4, 5, 2],
  timeDeltas: [100, 200, 30, 20, 50, 600],
}

test('all time but waiting is in some category', () => {
  const micros = attribute(profile, ({ url }) => url)
  expect(Object.fromEntries([...micros].filter(([, some]) => some > 0))).toEqual({
    answer: 200,
    'writes to clients': 50,
    'native code: reads, HTTP parser, system calls of the loop': 50,
  })
  expect([...micros.keys()]).toEqual(CATEGORIES)
})

test.each([
  ['exactly', 300, true, 0],
  ['a tenth too little', 330, true, 30],
  ['a tenth too much', 273, true, -27],
  ['more than a tenth missing', 340, false, 40],
  ['more than a tenth beyond', 270, false, -30],
])('rows that add up to the whole: %s', (_, whole, addsUp, remainderMicros) => {
  const parts = new Map([
    ['answer', 200],
    ['writes', 100],
  ])
  expect(attributionOf(parts, whole)).toMatchObject({ addsUp, remainderMicros })
})

describe('a place in a running program is that of its source', () => {
  const at = { lineNumber: 0, columnNumber: 0 }

  test.each([
    ['file:///work/fencepost/src/http/server/send.ts', 'src/http/server/send.ts'],
    ['file:///usr/src/fencepost/src/app.ts', 'src/app.ts'],
    ['file:///work/node_modules/a/node_modules/undici/lib/client.js', 'node_modules/undici/lib/client.js'],
    ['node:_http_outgoing', 'node:_http_outgoing'],
    ['', ''],
  ])('%s is %s', (url, place) => {
    expect(sourcePlaces()({ url, ...at })).toBe(place)
  })

  test('of a built program it is what its source map says', () => {
    const folder = mkdtempSync(join(tmpdir(), 'fencepost-places-'))
    try {
      const map = { version: 3, sources: ['../../elsewhere/src/core/settle.ts'], names: [], mappings: 'AAAA' }
      writeFileSync(join(folder, 'app.js.map'), JSON.stringify(map))
      const url = pathToFileURL(join(folder, 'app.js')).href
      expect(sourcePlaces()({ url, ...at })).toBe('src/core/settle.ts')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})
