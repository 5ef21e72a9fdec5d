/**
 * What requests under way cost in memory: a sidecar with the memory limit of the chart, and an application that holds every request
 * until all are there or refused.
 */
import { readFileSync } from 'node:fs'
import { Agent, createServer, request, type ServerResponse } from 'node:http'
import { eventually } from '../support/eventually.ts'
import { imageEnvironment } from '../support/image-environment.ts'
import { listening } from '../support/listening.ts'
import { memoryCgroup } from '../support/memory-cgroup.ts'
import { startSidecar } from '../support/sidecar.ts'

const MIB = 2 ** 20

export type MemoryRun = {
  readonly idleMiB: number
  /** Of the process, as the kernel counts it (VmHWM). */
  readonly peakMiB: number
  /** Of the cgroup; undefined where there was none. */
  readonly cgroupPeakMiB: number | undefined
  /** Why there was no cgroup. */
  readonly lacks: string | undefined
  readonly killed: boolean
  /** How often each status was answered; `none` where the connection ended instead. */
  readonly answers: Readonly<Record<string, number>>
}

/** @param env settings of the sidecar besides its nodes and its application */
export async function holdInFlight(
  { count, bodyBytes, limitMiB }: { count: number; bodyBytes: number; limitMiB: number },
  env: Readonly<Record<string, string>>,
): Promise<MemoryRun> {
  const waiting: ServerResponse[] = []
  const server = createServer((req, res) => {
    req.on('error', () => {}).resume()
    req.on('end', () => waiting.push(res))
  })
  const at = await listening(server)
  const cgroup = memoryCgroup(limitMiB * MIB)
  await using limits = typeof cgroup === 'string' ? undefined : cgroup
  try {
    await using sidecar = await startSidecar(
      {
        FENCEPOST_UPSTREAM: at.origin,
        FENCEPOST_UPSTREAM_CONNECTIONS: '1024',
        FENCEPOST_UPSTREAM_TIMEOUT: '2m',
        // The process must take the limit for its own also where there is no cgroup.
        ...(limits === undefined ? { FENCEPOST_BODY_MEMORY: `${Math.floor((limitMiB * 1024) / 6)}KiB` } : {}),
        ...imageEnvironment(),
        ...env,
      },
      { startWithinMs: 60_000, ...(limits === undefined ? {} : { joins: limits.procs }) },
    )
    const { pid } = sidecar.process
    const idleMiB = memoryOf(pid, 'VmRSS')
    const answers: Record<string, number> = {}
    const all = posts(sidecar.proxy, count, bodyBytes, (status) => {
      answers[status] = (answers[status] ?? 0) + 1
    })
    const refused = () => Object.values(answers).reduce((sum, each) => sum + each, 0)
    await eventually('all to be held or answered', () => waiting.length + refused() >= count, {
      withinMs: 100_000,
    })
    const killed = !sidecar.process.running
    const peakMiB = killed ? Number.NaN : memoryOf(pid, 'VmHWM')
    for (const response of waiting) response.writeHead(201).end('done')
    await all
    const cgroupPeakMiB = limits === undefined ? undefined : Math.round(limits.peakBytes() / MIB)
    const lacks = typeof cgroup === 'string' ? cgroup : undefined
    return { idleMiB, peakMiB, cgroupPeakMiB, lacks, killed, answers }
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

function memoryOf(pid: number, field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  const kibibytes = Number(new RegExp(`^${field}:\\s+(\\d+)`, 'm').exec(status)?.[1])
  return Math.round((kibibytes * 10) / 1024) / 10
}

async function posts(
  proxy: string,
  count: number,
  bodyBytes: number,
  answered: (status: string) => void,
): Promise<void> {
  const agent = new Agent({ maxSockets: count })
  const body = Buffer.from(JSON.stringify({ note: 'x'.repeat(Math.max(0, bodyBytes - 11)) }))
  const post = (key: number) =>
    new Promise<void>((resolve) => {
      let status = 'none'
      const sent = request(`${proxy}/payments`, {
        method: 'POST',
        agent,
        headers: {
          'content-type': 'application/json',
          'content-length': body.length,
          'idempotency-key': `held-${key}`,
        },
      })
      sent.on('response', (answer) => {
        status = String(answer.statusCode)
        answer.on('error', () => {}).resume()
      })
      // A refused request is answered before its body was sent, which ends its connection: the answer counts.
      sent
        .on('error', () => {})
        .on('close', () => {
          answered(status)
          resolve()
        })
      sent.end(body)
    })
  await Promise.all(Array.from({ length: count }, (_, key) => post(key)))
  agent.destroy()
}
