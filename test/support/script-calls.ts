/** How often a node was called with a script: those of looks left out, each of which also reads the configuration. */
import type { Redis } from 'ioredis'

export async function scriptCalls(client: Redis): Promise<number> {
  const stats = await client.info('commandstats')
  const of = (name: string) => Number(new RegExp(`^cmdstat_${name}:calls=(\\d+)`, 'm').exec(stats)?.[1] ?? 0)
  return of('evalsha') - of('config\\|get')
}
