/** What somebody writes who has installed @fencepost/client a minute ago. */
import { createClient, type Once } from '@fencepost/client'
import { fencepostErrors as forExpress } from '@fencepost/client/express'
import { fencepostErrors as forFastify } from '@fencepost/client/fastify'

declare const console: { log(text: string): void }
declare const process: { readonly env: Record<string, string | undefined> }

const fencepost = createClient({ url: process.env.FENCEPOST_URL ?? '' })
const pay = (): Promise<Once<{ paid: number }>> =>
  fencepost.once('payment:order-1', async ({ fencingToken, signal }) => {
    if (signal.aborted || fencingToken <= 0) throw new Error('not held')
    return { paid: 1200 }
  })
for (const { replayed, result } of [await pay(), await pay()])
  console.log(`${replayed ? 'before' : 'now'} ${result.paid}`)
console.log([typeof forExpress(), typeof forFastify].join(' '))
