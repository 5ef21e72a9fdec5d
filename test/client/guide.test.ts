/** What docs/guide/reservations.md shows for TypeScript, as it stands there, where the charge is made and its answer is lost. */
import { readFileSync } from 'node:fs'
import { type Client, createClient, DuplicateError } from '@fencepost/client'
import { expect, test } from 'vitest'
import { startReservationApi } from '../support/reservation-api.ts'

const page = readFileSync(new URL('../../docs/guide/reservations.md', import.meta.url), 'utf8')
const blocks = [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block)

type Charge = (order: unknown, at: { readonly token: number }) => Promise<{ readonly id: string }>

/** @returns what the block throws */
async function run(block: string, fencepost: Client, charge: Charge): Promise<unknown> {
  const names = ['createClient', 'DuplicateError', 'fencepost', 'charge', 'order', 'console']
  const AsyncFunction = (async () => {}).constructor as new (
    ...text: string[]
  ) => (...of: unknown[]) => Promise<void>
  const program = new AsyncFunction(...names, `{ ${block.replace(/^import .*$/gm, '')} }`)
  const running = program(() => fencepost, DuplicateError, fencepost, charge, {}, { log: () => {} })
  return running.then(
    () => undefined,
    (error: unknown) => error,
  )
}

// Bug: both released what may have been done, so the next attempt paid again, and was told that it was the first one.
test.each(blocks.map((block, index) => [index + 1, block] as const))(
  'block %i leaves open a charge that may have been made',
  async (_index, block) => {
    await using api = await startReservationApi()
    const fencepost = createClient({ url: api.origin })
    const lost = new Error('the answer is lost')
    expect(await run(block, fencepost, () => Promise.reject(lost))).toBe(lost)
    expect(await fencepost.read('payment:order-4711')).toMatchObject({ state: 'HELD' })
  },
)

test.each(blocks.map((block, index) => [index + 1, block] as const))(
  'block %i makes a charge once',
  async (_index, block) => {
    await using api = await startReservationApi()
    const fencepost = createClient({ url: api.origin })
    let charges = 0
    const charge = async () => ({ id: `p-${++charges}` })
    expect(await run(block, fencepost, charge)).toBeUndefined()
    expect(await run(block, fencepost, charge)).toBeUndefined()
    expect(charges).toBe(1)
  },
)
