/** TLS towards the nodes, as the configuration has it. */

import type { Config } from '../config/load.ts'
import { createNodeTls, type NodeTls } from '../redis/connector.ts'

/**
 * Undefined where no node speaks TLS: the system's authorities cost memory.
 *
 * @throws if OpenSSL can't use certificate and key
 */
export function nodeTlsOf({
  redisNodes,
  redisCa,
  redisCert,
  redisKey,
}: Pick<Config, 'redisNodes' | 'redisCa' | 'redisCert' | 'redisKey'>): NodeTls | undefined {
  if (redisNodes.kind === 'embedded') return undefined
  if (!redisNodes.groups.some(({ nodes }) => nodes.some(({ tls }) => tls))) return undefined
  return createNodeTls({ ca: redisCa?.content, cert: redisCert?.content, key: redisKey?.content })
}
