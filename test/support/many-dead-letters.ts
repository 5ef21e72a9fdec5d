/** More dead letters than one page has, straight into the streams of nodes: as sweepers write them, but at once. */
import { Redis } from 'ioredis'
import { auditStreamKey } from '../../src/redis/keys.ts'

export const deadLetterId = (n: number) => `orphan:${String(n).padStart(16, '0')}:${n}`

/**
 * The letters 1 to `count`, the larger the newer.
 *
 * @param orderOn in which order a node writes them; default: as they come
 */
export async function writeDeadLetters(
  urls: readonly string[],
  count: number,
  orderOn: (node: number, numbers: readonly number[]) => readonly number[] = (_, numbers) => numbers,
): Promise<void> {
  const numbers = Array.from({ length: count }, (_, at) => at + 1)
  await Promise.all(
    urls.map(async (url, node) => {
      const client = new Redis(url)
      const writing = client.pipeline()
      for (const n of orderOn(node, numbers)) {
        const body = JSON.stringify({ recordKey: `dedup:default:default:v1:${n}`, fields: { attempt: '1' } })
        // Two letters for each moment: their ids say which is the newer one.
        const at = String(1_000_000 + Math.floor(n / 2))
        writing.xadd(
          auditStreamKey('dead-letters'),
          '*',
          'id',
          deadLetterId(n),
          'kind',
          'orphan',
          'at',
          at,
          'body',
          body,
        )
      }
      await writing.exec()
      client.disconnect()
    }),
  )
}
