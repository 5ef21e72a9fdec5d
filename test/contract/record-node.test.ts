import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { EmbeddedNode } from '../../src/embedded/node.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { openRedisNode, STANDING_CLOCK } from '../support/redis-node.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { VIRTUAL_START_WALL_MS } from '../support/virtual-clock.ts'
import { CONTRACT_MAX_TOKEN_AHEAD_MS, recordNodeContract } from './record-node.ts'

const cleanup = stackOfTests()

recordNodeContract('embedded node', async () => {
  let nodeMs = VIRTUAL_START_WALL_MS
  const node = new EmbeddedNode('embedded-0', () => nodeMs, CONTRACT_MAX_TOKEN_AHEAD_MS)
  return {
    node,
    takeNewClaims: (take) => {
      node.takesNewClaims = take
    },
    reach: async (untilNodeMs) => {
      nodeMs = Math.max(nodeMs, untilNodeMs)
    },
    [Symbol.asyncDispose]: async () => {},
  }
})

const redis = recordNodeContract('redis node', async () => {
  const servers = cleanup.use(await startRedisServers(1))
  const url = servers.at(0).url
  const opened = cleanup.use(
    await openRedisNode({ url }, { maxTokenAheadMs: CONTRACT_MAX_TOKEN_AHEAD_MS, clock: STANDING_CLOCK }),
  )
  const { node, client } = opened
  return {
    node,
    takeNewClaims: (take) => node.sawMemory({ usedBytes: take ? 0 : 2, limitBytes: 2 }),
    reach: async (untilNodeMs) => {
      await eventually(
        `the node's clock to show ${untilNodeMs}`,
        async () => {
          const [seconds, microseconds] = await client.time()
          return Number(seconds) * 1000 + Math.floor(Number(microseconds) / 1000) >= untilNodeMs
        },
        { everyMs: 1 },
      )
    },
    [Symbol.asyncDispose]: () => opened[Symbol.asyncDispose](),
  }
})

/** What stands under "Answers" in the header of a Lua file. */
function documentedAnswers(command: string): string[] {
  const text = readFileSync(new URL(`../../src/redis/lua/${command}.lua`, import.meta.url), 'utf8')
  const header = text.slice(text.indexOf('Answers'), text.indexOf(']]'))
  return [...header.matchAll(/^ {2}([A-Z][A-Z_]+)\b/gm)].map(([, name]) => String(name).toLowerCase())
}

test('every answer that a Lua file documents was given by the real server above', () => {
  const documented = ['claim', 'renew', 'complete', 'release', 'read'].flatMap(documentedAnswers)
  expect(documented.length).toBe(18)
  // A reply that a busy machine reads too late is no answer of the script.
  const given = [...redis.answersSeen].filter((answer) => answer !== 'unreachable')
  expect([...new Set(documented)].sort()).toEqual(given.sort())
})

test('every answer that a Lua file can give is documented in its header', () => {
  for (const command of ['claim', 'renew', 'complete', 'release', 'read']) {
    const text = readFileSync(new URL(`../../src/redis/lua/${command}.lua`, import.meta.url), 'utf8')
    const given = [...text.matchAll(/\{ ([A-Z_]+)\b[^}]*\}/g)].map(([, name]) => String(name).toLowerCase())
    if (text.includes('completed_answer(')) given.push('completed')
    expect([...new Set(given)].sort(), command).toEqual(documentedAnswers(command).sort())
  }
})
