/** A client of a test, disconnected after it, however its node ends. */
import { Redis } from 'ioredis'
import { onTestFinished } from 'vitest'

export function clientOf(
  url: string,
  options: { maxRetriesPerRequest?: number; lazyConnect?: boolean } = {},
): Redis {
  const client = new Redis(url, options)
  client.on('error', () => {})
  onTestFinished(() => client.disconnect())
  return client
}
