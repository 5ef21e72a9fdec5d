/** Another last byte in a stored outcome, as a bad memory or disk writes it. */
import { Redis } from 'ioredis'
import { unpackRecord } from '../../src/redis/wire.ts'
import { eventually } from './eventually.ts'

export async function damageRecord(record: string, urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const node = new Redis(url)
    // The client has its answer once a majority has recorded it. The completion of another node may still be on its way, and would write a whole outcome.
    await eventually(`an outcome on ${url}`, async () => {
      const packed = await node.getBuffer(record)
      return packed !== null && unpackRecord(packed).state === 'completed'
    })
    await node.setrange(record, (await node.strlen(record)) - 1, '~')
    node.disconnect()
  }
}
