// The tool that breaks networks is itself tested.
import { createConnection, createServer, type Socket } from 'node:net'
import { describe, expect, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { listening } from '../support/listening.ts'
import { type FaultLink, startFaultLink } from './fault-proxy.ts'

type Echo = AsyncDisposable & { readonly port: number; readonly received: () => string }

/** Answers every piece with itself. */
async function startEcho(): Promise<Echo> {
  let received = ''
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      received += bytes.toString()
      socket.write(bytes)
    })
    socket.on('end', () => socket.end('bye'))
  })
  return { ...(await listening(server)), received: () => received }
}

type Client = Disposable & {
  readonly socket: Socket
  readonly pieces: string[]
  readonly events: string[]
  answers(): string
}

async function dial(link: FaultLink): Promise<Client> {
  const socket = createConnection({ port: link.port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true })
  const pieces: string[] = []
  const events: string[] = []
  socket.on('data', (bytes) => pieces.push(bytes.toString()))
  socket.on('end', () => events.push('end'))
  socket.on('error', (error: NodeJS.ErrnoException) => events.push(String(error.code)))
  socket.on('close', () => events.push('close'))
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve))
  return { socket, pieces, events, answers: () => pieces.join(''), [Symbol.dispose]: () => socket.destroy() }
}

describe('a link', () => {
  test('a healthy link passes everything, both ways, also the end of one side', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    using client = await dial(link)
    client.socket.write('hello')
    await eventually('the echo', () => client.answers() === 'hello')
    client.socket.end()
    await eventually('the last words of a node after the end', () => client.answers() === 'hellobye')
    expect(link.troubled).toBe(0)
  })

  test('a link with a black hole accepts connections and holds all bytes; healed, it delivers them', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ hold: 'both' })
    using client = await dial(link)
    client.socket.write('held')
    await eventually('the bytes to reach the link', () => link.troubled > 0)
    expect(echo.received()).toBe('')
    link.heal()
    await eventually('the echo', () => client.answers() === 'held')
  })

  test('a link that drops one way lets requests take effect and holds their answers', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ hold: 'back' })
    using client = await dial(link)
    client.socket.write('effect')
    await eventually('the effect', () => echo.received() === 'effect')
    await eventually('the answer to be held', () => link.troubled > 0)
    expect(client.answers()).toBe('')
    link.reset()
    await eventually('the connection to be reset', () => client.events.includes('close'))
    link.heal()
    expect(client.answers()).toBe('')
  })

  test('a link that refuses resets the open connections and every new one', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    using standing = await dial(link)
    await eventually('the connection to stand', () => link.connections === 1)
    link.set({ refuse: true })
    await eventually('the reset', () => standing.events.includes('ECONNRESET'))
    using refused = await dial(link)
    await eventually('the refusal', () => refused.events.includes('close'))
    link.heal()
    using again = await dial(link)
    again.socket.write('back')
    await eventually('the echo', () => again.answers() === 'back')
  })

  test('a slow link keeps the order and delays by at least its latency', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ latencyMs: 60, jitterMs: 30 })
    using client = await dial(link)
    const begunMs = performance.now()
    for (const piece of ['a', 'b', 'c', 'd']) client.socket.write(piece)
    await eventually('all echoes', () => client.answers() === 'abcd')
    expect(performance.now() - begunMs).toBeGreaterThanOrEqual(120)
  })

  test('a link that is slow one way delays no byte of the other way', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ latencyMs: 600_000, slow: 'back' })
    using client = await dial(link)
    client.socket.write('hello')
    await eventually('the bytes to reach the node', () => echo.received() === 'hello')
    await eventually('its answer to reach the link', () => link.troubled === 1)
    expect(client.answers()).toBe('')
  })

  test('a slicing link hands over a byte at a time', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ sliceBytes: 1 })
    using client = await dial(link)
    client.socket.write('0123456789')
    await eventually('the echo', () => client.answers() === '0123456789')
    expect(link.passedBytes).toBe(20)
  })

  test('a half-closed link sends the client the end and still takes its bytes', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    using client = await dial(link)
    client.socket.write('one')
    await eventually('the echo', () => client.answers() === 'one')
    link.halfClose()
    await eventually('the end', () => client.events.includes('end'))
    client.socket.write('two')
    await eventually('what was sent after the end', () => echo.received() === 'onetwo')
  })

  test('a link that leads elsewhere keeps its open connections, and leads new ones by turns until it is healed', async () => {
    await using first = await startEcho()
    await using second = await startEcho()
    await using link = await startFaultLink(first.port)
    using open = await dial(link)
    link.leadTo(second.port, first.port)
    using one = await dial(link)
    using other = await dial(link)
    link.heal()
    using healed = await dial(link)
    for (const [index, client] of [open, one, other, healed].entries()) client.socket.write(String(index))
    await eventually('the echoes', () => [open, one, other, healed].every((its) => its.answers() !== ''))
    // Of two new connections each server has one.
    expect([first, second].map((echo) => [...echo.received()].toSorted().join(''))).toEqual(
      expect.arrayContaining([expect.stringMatching(/^[12]$/), expect.stringMatching(/^0[12]3$/)]),
    )
  })

  test('a listener sees every piece before the link acts on it', async () => {
    await using echo = await startEcho()
    await using link = await startFaultLink(echo.port)
    link.set({ hold: 'both' })
    const seen: string[] = []
    link.onBytes = ({ direction, bytes }) => seen.push(`${direction} ${bytes}`)
    using client = await dial(link)
    client.socket.write('point')
    await eventually('the piece', () => seen.length === 1)
    expect(seen).toEqual(['out point'])
  })
})
