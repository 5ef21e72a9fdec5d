/**
 * What a Redis node executes, by its own report: the lines of MONITOR, each call and the calls inside a script, in
 * order.
 *
 * Owns the connection and how a line is written. What the calls mean is `node-recorder.ts`.
 */

import { once } from 'node:events'
import { createConnection, type Socket } from 'node:net'

/** One line. The words are one character a byte, as Redis got them. */
export type Carried = {
  /** By the node's clock, microseconds since 1970. */
  readonly atUs: number
  /** A call inside the script of the preceding call. */
  readonly inScript: boolean
  readonly words: readonly string[]
}

export class Monitor implements AsyncDisposable {
  readonly lines: Carried[] = []
  readonly #socket: Socket
  #rest = ''

  private constructor(socket: Socket) {
    this.#socket = socket
    socket.on('error', () => {}) // A killed node: the lines it sent stand.
    socket.setEncoding('latin1').on('data', (text) => this.#take(String(text)))
  }

  /** Everything that the node executes from now on. */
  static async on(port: number): Promise<Monitor> {
    const socket = createConnection({ host: '127.0.0.1', port })
    await once(socket, 'connect')
    const monitor = new Monitor(socket)
    const said = once(socket, 'data')
    socket.write('MONITOR\r\n')
    await said
    return monitor
  }

  #take(text: string): void {
    const lines = (this.#rest + text).split('\r\n')
    this.#rest = lines.pop() ?? ''
    for (const line of lines) if (line !== '+OK') this.lines.push(parseLine(line))
  }

  /** Until the node has closed the connection, as when it is killed. */
  async ended(): Promise<void> {
    if (!this.#socket.closed) await once(this.#socket, 'close')
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#socket.destroy()
  }
}

const LINE = /^\+(\d+)\.(\d{6}) \[\d+ ([^\]]*)\] (.*)$/s

/** @throws Error where it is not a line of MONITOR */
export function parseLine(line: string): Carried {
  const [, seconds, micros, source, words = ''] = LINE.exec(line) ?? []
  if (seconds === undefined) throw new Error(`not a line of MONITOR: ${line.slice(0, 200)}`)
  return {
    atUs: Number(seconds) * 1_000_000 + Number(micros),
    inScript: source === 'lua',
    words: [...words.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, word = '']) => unescaped(word)),
  }
}

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', a: '\x07', b: '\b' }

/** As Redis writes what can't be printed (`sdscatrepr`). */
function unescaped(word: string): string {
  return word.replace(/\\(?:x([0-9a-f]{2})|(.))/gs, (_, hex?: string, letter = '') =>
    hex === undefined ? (ESCAPES[letter] ?? letter) : String.fromCharCode(Number.parseInt(hex, 16)),
  )
}
