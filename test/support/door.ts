/**
 * A door in front of a server, on loopback: open, shut, or with every connection waiting in front of it. It counts
 * attempts and the connections inside, and is closed with the test.
 */
import { createConnection, createServer, type NetConnectOpts, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { listening } from './listening.ts'

export type DoorState = 'open' | 'shut' | 'held'

/** `said`: what a client hears in place of what the server says. */
export async function openDoor(behind: NetConnectOpts, said?: (bytes: Buffer) => Buffer) {
  let state: DoorState = 'open'
  let attempts = 0
  let ended = 0
  const inside = new Set<Socket>()
  const waiting: (() => void)[] = []
  const door = createServer((socket) => {
    attempts += 1
    inside.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      inside.delete(socket)
      ended += 1
    })
    const admit = () => {
      const server = createConnection(behind)
      server.on('error', () => socket.destroy())
      server.on('close', () => socket.destroy())
      socket.on('close', () => server.destroy())
      socket.pipe(server)
      if (said === undefined) server.pipe(socket)
      else server.on('data', (bytes: Buffer) => socket.write(said(bytes)))
    }
    if (state === 'shut') socket.destroy()
    else if (state === 'held') waiting.push(admit)
    else admit()
  })
  const at = await listening(door)
  onTestFinished(() => at[Symbol.asyncDispose]())
  return {
    port: at.port,
    attempts: () => attempts,
    ended: () => ended,
    inside: () => inside.size,
    /** Opening admits the waiting connections; any other turn closes those inside. */
    turn(to: DoorState) {
      state = to
      if (to !== 'open') for (const socket of inside) socket.destroy()
      else for (const admit of waiting.splice(0)) admit()
    },
  }
}
