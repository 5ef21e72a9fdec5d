/**
 * Free ports on loopback, for servers that need theirs as a setting.
 */

import { randomInt } from 'node:crypto'
import { createServer, type Server } from 'node:net'

/**
 * Below those that the system gives to clients (Linux from 32768 on, ip_local_port_range in ip(7); others from 49152):
 * a connection of any program could take one of those before its server listens. The tests have those from END_PORT on
 * for theirs: where one stops a server for a while, no demonstration beside it may take its port.
 */
export const FIRST_PORT = 12_000
export const END_PORT = 16_000

const ATTEMPTS_MAX = 200

/** Opens all before it closes any, so that no port is given twice. */
export async function freePorts(count: number): Promise<number[]> {
  const taken = new Map<number, Server>()
  for (let attempt = 0; taken.size < count; attempt += 1) {
    if (attempt === ATTEMPTS_MAX)
      throw new Error(
        `${taken.size} of ${count} free TCP ports found on 127.0.0.1 between ${FIRST_PORT} and ${END_PORT} in ${ATTEMPTS_MAX} attempts`,
      )
    const port = randomInt(FIRST_PORT, END_PORT)
    const server = createServer()
    const listens = new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
    })
    if (await listens) taken.set(port, server)
  }
  for (const server of taken.values()) server.close()
  return [...taken.keys()]
}
