/**
 * An address that swallows what is sent to it, as a path with a broken route or a firewall that drops: a process that is stopped, with its
 * queue of connections full.
 *
 *     await using broken = await swallow('::1', [6379])
 */
import { createConnection } from 'node:net'
import { TestProcess } from './processes.ts'

const LISTEN = `
  const { createServer } = require('node:net')
  const [host, ...ports] = process.argv.slice(1)
  let open = 0
  for (const port of ports)
    createServer().listen({ host, port: Number(port), backlog: 1, ipv6Only: true }, () => {
      if (++open === ports.length) console.log('listening')
    })`

/** More than the kernel keeps for a queue of one. */
const FILLING = 6

export async function swallow(host: string, ports: readonly number[]): Promise<AsyncDisposable> {
  const listening = new TestProcess(process.execPath, ['-e', LISTEN, host, ...ports.map(String)])
  await listening.line(/listening/)
  listening.signal('SIGSTOP')
  const filling = ports.flatMap((port) =>
    Array.from({ length: FILLING }, () => createConnection({ host, port }).on('error', () => {})),
  )
  return {
    [Symbol.asyncDispose]: async () => {
      for (const one of filling) one.destroy()
      listening.signal('SIGCONT')
      await listening[Symbol.asyncDispose]()
    },
  }
}
