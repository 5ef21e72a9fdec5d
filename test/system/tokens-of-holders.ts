/**
 * Tokens of successive holders strictly increase, whichever process claims, while nodes are stopped and started one at
 * a time.
 *
 * Every holder appends its token to one file a value while it holds, so the lines are in the order of the holders. As a
 * test, of so many acquisitions.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { startSidecar } from '../support/sidecar.ts'

const PROCESSES = 4
const VALUES = ['a', 'b']
const CALLER = fileURLToPath(new URL('../support/reservation-caller.ts', import.meta.url))

/** A restarted node votes again within about four seconds. */
const SETTINGS = {
  FENCEPOST_LEASE: '4s',
  FENCEPOST_RESERVATION_MAX_LEASE: '4s',
  FENCEPOST_CLOCK_STEP: '100ms',
  // All that so short a lease allows: on a busy machine nodes answer late, and nothing would be granted for a minute.
  FENCEPOST_NODE_DEADLINE: '200ms',
  FENCEPOST_CLAIM_BUDGET: '1500ms',
  FENCEPOST_LOG_LEVEL: 'info',
}

export function testOfTokens(acquisitions: number): void {
  test(`the tokens of ${acquisitions} successive holders from ${PROCESSES} processes strictly increase`, {
    // More than two of the waits in it, so that the one which fails is named.
    timeout: 180_000 + acquisitions * 120,
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), 'fencepost-tokens-'))
    await using servers = await startRedisServers(5, { founded: true })
    const settings = { ...SETTINGS, FENCEPOST_REDIS_NODES: servers.nodesSetting }
    await using one = await startSidecar(settings)
    await using two = await startSidecar(settings)
    const callers = Array.from(
      { length: PROCESSES },
      (_, index) =>
        new TestProcess(
          process.execPath,
          [
            CALLER,
            'acquire',
            [one, two][index % 2]!.api,
            folder,
            VALUES.join(','),
            String(acquisitions / PROCESSES),
          ],
          { name: `caller ${index}` },
        ),
    )
    try {
      let restarts = 0
      const working = () => callers.some((caller) => caller.running)
      for (let node = 0; working(); node = (node + 1) % 5) {
        await (node % 2 === 0 ? servers.stop(node) : servers.kill(node))
        const written = (await tokensIn(folder)).flat().length
        await eventually(
          'some are acquired without it',
          async () => !working() || (await tokensIn(folder)).flat().length > written + 5,
          { withinMs: 60_000 },
        )
        await servers.start(node)
        await eventually('all nodes vote again', async () => !working() || (await allVote(one.admin)), {
          withinMs: 60_000,
        })
        restarts += 1
      }
      for (const caller of callers)
        expect(await caller.exited, caller.output).toEqual({ code: 0, signal: null })
      const tokens = await tokensIn(folder)
      console.log(
        `${tokens.flat().length} acquisitions, ${restarts} nodes restarted; ${callers.map(({ output }) => output.trim()).join(' ')}`,
      )
      expect(restarts).toBeGreaterThanOrEqual(1)
      expect(tokens.flat().length).toBeGreaterThanOrEqual(acquisitions)
      for (const ofValue of tokens)
        expect(ofValue.filter((token, index) => index > 0 && token <= ofValue[index - 1]!)).toEqual([])
    } finally {
      for (const caller of callers) await caller.end({ signal: 'SIGKILL' })
      await rm(folder, { recursive: true })
    }
  })
}

async function tokensIn(folder: string): Promise<number[][]> {
  const files = await Promise.all(
    VALUES.map((value) => readFile(join(folder, value), 'utf8').catch(() => '')),
  )
  return files.map((text) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .map(Number),
  )
}

async function allVote(admin: string): Promise<boolean> {
  const { nodes } = (await (await fetch(`${admin}/readyz`)).json()) as { nodes: { state: string }[] }
  return nodes.every(({ state }) => state === 'voting')
}
