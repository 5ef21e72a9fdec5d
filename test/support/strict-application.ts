/**
 * An application that reads HTTP/1.1 by the letter of RFC 9112 and without a library: its input is exactly one request
 * after another, or a fault. Keeps counts and no requests, so that it can take a hundred thousand of them.
 */
import { createServer } from 'node:net'
import { listening } from './listening.ts'

export type StrictApplication = AsyncDisposable & {
  readonly origin: string
  /** Whole requests, each answered 201. */
  readonly requests: number
  /** Bytes that could be read as no request, or as more than one. */
  readonly faults: readonly string[]
}

const REQUEST_LINE = /^[A-Z!#$%&'*+.^_`|~0-9a-z-]+ \/[\x21-\x7e\x80-\xff]* HTTP\/1\.1$/
const FIELD_LINE = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+: ?[\t\x20-\x7e\x80-\xff]*$/
const ANSWER = 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\nok'
const BODYLESS_ANSWER = 'HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n'

export async function startStrictApplication(): Promise<StrictApplication> {
  const faults: string[] = []
  let requests = 0
  const server = createServer((socket) => {
    let pending = ''
    socket.on('close', () => {
      if (pending !== '') cutOff(pending)
    })
    socket.on('error', () => {})
    socket.setEncoding('latin1').on('data', (part) => {
      pending += part
      for (;;) {
        const read = readRequest(pending)
        if (read.kind === 'incomplete') return
        if (read.kind === 'fault') {
          faults.push(`${read.what}: ${JSON.stringify(pending.slice(0, 300))}`)
          pending = ''
          socket.destroy()
          return
        }
        pending = pending.slice(read.length)
        requests += 1
        socket.write(read.method === 'HEAD' ? BODYLESS_ANSWER : ANSWER)
      }
    })
  })
  const served = await listening(server)
  return {
    ...served,
    get requests() {
      return requests
    },
    faults,
  }

  /** On routes that stream, the body of a client that disconnects is cut; a head is never sent in part. */
  function cutOff(pending: string): void {
    if (!pending.includes('\r\n\r\n')) faults.push(`part of a head: ${JSON.stringify(pending.slice(0, 300))}`)
  }
}

type Read =
  | { readonly kind: 'request'; readonly method: string; readonly length: number }
  | { readonly kind: 'incomplete' }
  | { readonly kind: 'fault'; readonly what: string }

const INCOMPLETE = { kind: 'incomplete' } as const

export function readRequest(bytes: string): Read {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd === -1) return INCOMPLETE
  const [requestLine = '', ...lines] = bytes.slice(0, headEnd).split('\r\n')
  const fault = (what: string): Read => ({ kind: 'fault', what })
  if (!REQUEST_LINE.test(requestLine)) return fault('a request line')
  const wrong = lines.find((line) => !FIELD_LINE.test(line))
  if (wrong !== undefined) return fault(`a header line ${JSON.stringify(wrong)}`)
  const values = (name: string) =>
    lines.flatMap((line) =>
      line.toLowerCase().startsWith(`${name}:`) ? [line.slice(name.length + 1).trim()] : [],
    )
  if (values('host').length !== 1) return fault(`${values('host').length} Host lines`)
  const [lengths, codings] = [values('content-length'), values('transfer-encoding')]
  const method = requestLine.slice(0, requestLine.indexOf(' '))
  const body = headEnd + 4
  if (lengths.length + codings.length > 1) return fault('two framings')
  if (codings.length === 1) {
    if (codings[0] !== 'chunked') return fault(`the coding ${codings[0]}`)
    return chunksFrom(bytes, body, method)
  }
  const length = lengths[0] ?? '0'
  if (!/^(0|[1-9][0-9]*)$/.test(length)) return fault(`the length ${length}`)
  const end = body + Number(length)
  return bytes.length < end ? INCOMPLETE : { kind: 'request', method, length: end }
}

function chunksFrom(bytes: string, from: number, method: string): Read {
  for (let at = from; ; ) {
    const lineEnd = bytes.indexOf('\r\n', at)
    if (lineEnd === -1) return INCOMPLETE
    const size = bytes.slice(at, lineEnd)
    if (!/^[0-9a-fA-F]+$/.test(size)) return { kind: 'fault', what: `the chunk size ${JSON.stringify(size)}` }
    const dataEnd = lineEnd + 2 + Number.parseInt(size, 16)
    if (bytes.length < dataEnd + 2) return INCOMPLETE
    if (bytes.slice(dataEnd, dataEnd + 2) !== '\r\n') return { kind: 'fault', what: 'the end of a chunk' }
    if (Number.parseInt(size, 16) === 0) return { kind: 'request', method, length: dataEnd + 2 }
    at = dataEnd + 2
  }
}
