/** A server that speaks Redis' protocol and is none: for what is said of programs that no test can start. */
import { createServer } from 'node:net'
import { onTestFinished } from 'vitest'
import { listening } from './listening.ts'

/**
 * Until the test has finished.
 *
 * @param answer what it says to each command, as bytes of the protocol
 * @returns its URL
 */
export async function answering(answer: string): Promise<string> {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.setEncoding('latin1').on('data', (text: string) => {
      for (const _command of text.matchAll(/^\*\d+\r$/gm)) socket.write(answer)
    })
  })
  const at = await listening(server)
  onTestFinished(() => at[Symbol.asyncDispose]())
  return `redis://127.0.0.1:${at.port}`
}
