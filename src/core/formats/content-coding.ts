/**
 * Undoes the content codings of a body, bounded, so that a compressed and a plain body of one content are one.
 *
 * Codings are undone all or not at all: an unknown one, a broken stream, bytes after its end or an oversized result
 * leave the body `encoded`, to be compared as it came together with the names of its codings. `identity` is no coding.
 * Decompression runs in the thread pool of Node, so that a large body does not hold up the event loop.
 *
 * One body is decoded after the other, because none of the limits of bodies under way sees what they unpack to: 4 KiB that are 4 MiB,
 * a hundred times at once, are more than a container has. The clients take turns, and what unpacks to little does not wait for what
 * unpacks to much: a body is tried among the short ones first.
 *
 * Source: RFC 9110, section 8.4.1; RFC 7932 (br); RFC 8878 (zstd).
 */

import {
  brotliDecompress,
  gunzip,
  type InputType,
  inflate,
  type ZlibOptions,
  zstdDecompress,
} from 'node:zlib'
import { tokenList } from '../header-list.ts'

/** Most bytes after any one coding; beyond it the body stays encoded. Bounds what a small bomb can unpack to. */
export const DECODED_BYTES_MAX = 4 * 1024 * 1024

/** Most codings of one body; with more it stays encoded. */
export const CODINGS_MAX = 4

export type EncodedReason = 'unknown_coding' | 'too_many_codings' | 'decoded_too_large' | 'broken_coding'

type DecodedBody =
  | { readonly kind: 'decoded'; readonly bytes: Uint8Array }
  | {
      readonly kind: 'encoded'
      readonly codings: readonly string[]
      readonly reason: EncodedReason
      readonly detail: string
    }

type Decoder = (
  bytes: InputType,
  options: ZlibOptions & { info: true },
  done: (error: Error | null, result: unknown) => void,
) => void

// With `info: true` zlib returns the engine beside the result; the published types know only the result.
const DECODERS: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', gunzip as Decoder],
  ['deflate', inflate as Decoder],
  ['br', brotliDecompress as unknown as Decoder],
  ['zstd', zstdDecompress as unknown as Decoder],
])

/** The codings of a body in the order in which they were applied, in lower case. */
export function codingsOf(lines: readonly string[]): readonly string[] {
  if (lines.length === 0) return lines
  return tokenList(lines)
    .map((coding) => coding.toLowerCase())
    .map((coding) => (coding === 'x-gzip' ? 'gzip' : coding))
    .filter((coding) => coding !== 'identity')
}

/** What nearly every body unpacks to, and what is decoded twice of one that unpacks to more. */
const SHORT_BYTES_MAX = 256 * 1024

const [shortTurns, longTurns] = [createTurns(), createTurns()]

/** @param client whose turn it takes */
export async function decodeBody(
  body: Uint8Array,
  codings: readonly string[],
  decodedBytesMax: number,
  client: string,
): Promise<DecodedBody> {
  const shortMax = Math.min(SHORT_BYTES_MAX, decodedBytesMax)
  const tried = await shortTurns.take(client, () => decode(body, codings, shortMax))
  const isLong =
    tried.kind === 'encoded' && tried.reason === 'decoded_too_large' && shortMax < decodedBytesMax
  return isLong ? longTurns.take(client, () => decode(body, codings, decodedBytesMax)) : tried
}

/** Never rejects. */
async function decode(
  body: Uint8Array,
  codings: readonly string[],
  decodedBytesMax: number,
): Promise<DecodedBody> {
  const encoded = (reason: EncodedReason, detail: string): DecodedBody => ({
    kind: 'encoded',
    codings,
    reason,
    detail,
  })
  if (codings.length > CODINGS_MAX)
    return encoded('too_many_codings', `${codings.length} codings, at most ${CODINGS_MAX} are undone`)
  const decoders = codings.map((coding) => DECODERS.get(coding))
  let bytes = body
  // The coding applied last is the outermost.
  for (const decoder of decoders.toReversed()) {
    if (decoder === undefined) return encoded('unknown_coding', 'a coding is not known here')
    const result = await undo(decoder, bytes, decodedBytesMax)
    if (result === 'decoded_too_large')
      return encoded(result, `more than ${decodedBytesMax} bytes when decoded`)
    if (result === 'broken_coding') return encoded(result, 'broken, cut short, or followed by other bytes')
    bytes = result
  }
  return { kind: 'decoded', bytes }
}

/** Each part is a turn in the thread pool. With Node's 16 KiB a body of 4 MiB takes twice the processor time; a short one costs the same. */
const PART_BYTES = 64 * 1024

function undo(
  decoder: Decoder,
  bytes: Uint8Array,
  decodedBytesMax: number,
): Promise<Buffer | 'decoded_too_large' | 'broken_coding'> {
  return new Promise((resolve) => {
    const options = { maxOutputLength: decodedBytesMax, chunkSize: PART_BYTES, info: true } as const
    decoder(bytes, options, (error, result) => {
      if (error !== null) {
        const tooLarge = 'code' in error && error.code === 'ERR_BUFFER_TOO_LARGE'
        return resolve(tooLarge ? 'decoded_too_large' : 'broken_coding')
      }
      const { buffer, engine } = result as { buffer: Buffer; engine: { bytesWritten: number } }
      // Bytes that the decoder did not read are no part of the content, and yet part of what the client sent.
      resolve(engine.bytesWritten === bytes.length ? buffer : 'broken_coding')
    })
  })
}

/**
 * Turns at what is done once at a time: after a client's turn all others that wait have theirs, however many times the one asks.
 */
type Turns = {
  /** @param work never rejects */
  take<T>(client: string, work: () => Promise<T>): Promise<T>
}

function createTurns(): Turns {
  /** In the order of their next turns; a client that waits for nothing is not there. */
  const waiting = new Map<string, (() => void)[]>()
  let isTaken = false

  function end(of: string): void {
    const more = waiting.get(of)
    // Whoever came meanwhile is before it.
    if (more !== undefined && waiting.delete(of)) waiting.set(of, more)
    const [next] = waiting
    isTaken = next !== undefined
    if (next === undefined) return
    const [client, begins] = next
    const begin = begins.shift()
    if (begins.length === 0) waiting.delete(client)
    begin?.()
  }

  return {
    take: async (client, work) => {
      if (isTaken)
        await new Promise<void>((begin) => {
          const own = waiting.get(client)
          if (own === undefined) waiting.set(client, [begin])
          else own.push(begin)
        })
      isTaken = true
      const done = await work()
      end(client)
      return done
    },
  }
}
