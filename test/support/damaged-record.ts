/** Another last byte in a stored outcome, as a bad memory or disk writes it. */
import { Redis } from 'ioredis'

export async function damageRecord(record: string, urls: readonly string[]): Promise<void> {
  for (const url of urls) {
    const node = new Redis(url)
    await node.setrange(record, (await node.strlen(record)) - 1, '~')
    node.disconnect()
  }
}
