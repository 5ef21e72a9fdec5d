/** Processor time of Redis nodes by their own count: what the kernel counted for the process, without its children. */
import type { Redis } from 'ioredis'

/** Microseconds that all of them together used until now. */
export async function serverCpuMicrosOf(clients: readonly Redis[]): Promise<number> {
  const infos = await Promise.all(clients.map((client) => client.info('cpu')))
  const seconds = infos.map((info) =>
    [...info.matchAll(/^used_cpu_(?:user|sys):([\d.]+)/gm)].reduce((sum, [, used]) => sum + Number(used), 0),
  )
  return seconds.reduce((sum, one) => sum + one, 0) * 1e6
}
