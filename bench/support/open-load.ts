/**
 * Clients as a process of their own, so that they do not delay measurements beside them.
 *
 *     node bench/support/open-load.ts ORIGIN CONNECTIONS SECONDS [REQUESTS A SECOND]
 *
 * With a rate: so many requests begin each second whatever the earlier ones do, as long as a connection is free.
 * Without one: each connection sends again as soon as it was answered. Prints how many were answered a second, and how.
 */
import { Pool } from 'undici'

const [origin = '', connections = '1', seconds = '1', rate] = process.argv.slice(2)
const pool = new Pool(origin, { connections: Number(connections), pipelining: 1 })
const answers = new Map<number, number>()
const startedMs = performance.now()
const endMs = startedMs + Number(seconds) * 1_000
let begun = 0
let underWay = 0

async function request(): Promise<void> {
  begun += 1
  underWay += 1
  const headers = { 'idempotency-key': `load-${process.pid}-${Math.floor(begun / 2)}` }
  const options = { method: 'POST', path: '/payments', headers, body: 'x' } as const
  const status = await pool.request(options).then(
    async (response) => {
      await response.body.dump()
      return response.statusCode
    },
    () => 0,
  )
  answers.set(status, (answers.get(status) ?? 0) + 1)
  underWay -= 1
}

async function closed(): Promise<void> {
  while (performance.now() < endMs) await request()
}

async function open(perSecond: number): Promise<void> {
  let due = 0
  let lastMs = performance.now()
  const all: Promise<void>[] = []
  while (performance.now() < endMs) {
    await new Promise((resolve) => setTimeout(resolve, 5))
    const nowMs = performance.now()
    due += ((nowMs - lastMs) / 1_000) * perSecond
    lastMs = nowMs
    for (; due >= 1; due -= 1) if (underWay < Number(connections)) all.push(request())
  }
  await Promise.all(all)
}

if (rate === undefined) await Promise.all(Array.from({ length: Number(connections) }, closed))
else await open(Number(rate))
const took = (performance.now() - startedMs) / 1_000
console.log(JSON.stringify({ begun, perSecond: begun / took, answers: Object.fromEntries(answers) }))
await pool.close()
