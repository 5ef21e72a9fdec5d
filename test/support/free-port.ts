/**
 * A TCP port on loopback for a server that needs its port as a setting and has to come back on the same one.
 *
 * Servers that can listen on port 0 should do that. The others get a port below the kernel's range of ephemeral ports:
 * a client that keeps dialling a stopped server on an ephemeral port may be given that very port as its own and connect
 * to itself (TCP simultaneous open), and then the server cannot come back.
 *
 * Between our check and the server's bind, and while a server is stopped, no other server may get its port: each worker
 * of the tests has its own ports, a process hands out no port twice, and the ports of the demonstration, which tests
 * start too, are others.
 */
import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'
import { END_PORT as FIRST_PORT } from '../../src/demo/redis-processes.ts'

/** Below the ephemeral ports of Linux, which begin at 32768. */
const END_PORT = 32_000

/** Parallel workers are numbered from 1; a program outside of the tests counts as number 0. */
const SHARES = 8
const share = Number(process.env.VITEST_POOL_ID ?? 0) % SHARES

const given = new Set<number>()

export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 200; attempt += 1) {
    const port = FIRST_PORT + SHARES * randomInt((END_PORT - FIRST_PORT) / SHARES) + share
    if (given.has(port)) continue
    given.add(port)
    if (await canListen(port)) return port
  }
  throw new Error(`no free TCP port found on 127.0.0.1 between ${FIRST_PORT} and ${END_PORT} in 200 attempts`)
}

function canListen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
    probe.once('error', () => resolve(false))
    probe.listen({ host: '127.0.0.1', port, exclusive: true }, () => probe.close(() => resolve(true)))
  })
}
