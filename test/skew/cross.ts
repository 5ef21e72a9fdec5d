/** Tries every crossing in both directions, one after the other, and says what went otherwise. */
import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { startSidecar } from '../support/sidecar.ts'
import { CROSSINGS } from './crossings.ts'
import { START_MS, startPair, type Version } from './pair.ts'

export type Crossed = {
  readonly name: string
  readonly first: string
  readonly second: string
  /** Undefined where it went as the table says. */
  readonly failure: string | undefined
}

/**
 * @param urls of the nodes
 * @param only names of rows; default: all of them
 */
export async function cross(
  versions: readonly [Version, Version],
  urls: readonly string[],
  only: readonly string[] = Object.keys(CROSSINGS),
): Promise<readonly Crossed[]> {
  const crossed: Crossed[] = []
  const node = new Redis(urls[0]!)
  try {
    await using pair = await startPair(versions, urls.join(','))
    const [one, two] = pair.sides
    for (const [first, second] of [
      [one, two],
      [two, one],
    ] as const) {
      for (const name of only) {
        await using started = new AsyncDisposableStack()
        const failure = await CROSSINGS[name]!({
          first: first.sidecar,
          second: second.sidecar,
          application: pair.application,
          node,
          // A later pair on the same nodes has other keys, and could not read the outcomes of this one.
          name: `${first.name}-${second.name}-${name}-${randomUUID()}`.replaceAll(/[^\w.-]+/g, '-'),
          another: async () =>
            started.use(await startSidecar(pair.env, { main: first.main, startWithinMs: START_MS })),
        }).then(
          () => undefined,
          (cause: unknown) => (cause instanceof Error ? cause.message : String(cause)),
        )
        crossed.push({ name, first: first.name, second: second.name, failure })
      }
    }
  } finally {
    node.disconnect()
  }
  return crossed
}

export function describe({ name, first, second, failure }: Crossed): string {
  return `${first} → ${second}: ${name}${failure === undefined ? '' : `: ${failure.replaceAll('\n', ' ')}`}`
}
