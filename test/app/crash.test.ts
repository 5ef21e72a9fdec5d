/**
 * What a process leaves behind when it crashes or is sent a report signal: where it happened, and none of the secrets
 * that it was given or that the error carries. The words are planted in the environment, in files, and in requests.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { canary, found } from '../support/canaries.ts'
import { eventually } from '../support/eventually.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const preload = join(import.meta.dirname, '../support/crash-on-hangup.mjs')
const INPUTS = {
  onTheFault: canary('on-the-fault'),
  inTheEnvironment: canary('in-the-environment'),
  apiToken: canary('api-token'),
  authorization: canary('authorization'),
  value: canary('value'),
}

let folder: string
let servers: RedisServers
let sidecar: Sidecar
let told: string

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'fencepost-crash-'))
  told = ''
  const file = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  servers = await startRedisServers(3, { founded: true })
  sidecar = await startSidecar(
    {
      ...PATIENT,
      FENCEPOST_REDIS_NODES: servers.urls
        .map((url) => url.replace('redis://', `redis://default:${INPUTS.inTheEnvironment}@`))
        .join(','),
      FENCEPOST_API_TOKEN_FILE: file('token', INPUTS.apiToken),
      FENCEPOST_LOG_LEVEL: 'trace',
      CRASH_SECRETS_FILE: file('secrets', INPUTS.onTheFault),
      NODE_OPTIONS: `--import=${preload} --report-uncaught-exception --report-on-signal --report-directory=${folder}`,
    },
    {
      onOutput: (text) => {
        told += text
      },
    },
  )
  const reserved = await fetch(`${sidecar.api}/v1/reservations`, {
    method: 'POST',
    headers: { authorization: `Bearer ${INPUTS.apiToken}`, 'content-type': 'application/json' },
    body: JSON.stringify({ session_id: INPUTS.authorization, reserved_value: INPUTS.value }),
  })
  expect(reserved.status).toBe(201)
})

afterEach(async () => {
  await sidecar[Symbol.asyncDispose]()
  await servers[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

/** The one report that was written, whole. */
async function report(): Promise<string> {
  return eventually('a report', () => {
    const [name] = readdirSync(folder).filter((file) => file.startsWith('report.'))
    if (name === undefined) return undefined
    const text = readFileSync(join(folder, name), 'utf8')
    return text.trimEnd().endsWith('}') ? text : undefined
  })
}

test('an uncaught exception is reported by type and place, in the last words and in a report', async () => {
  sidecar.process.signal('SIGHUP')
  expect(await sidecar.process.exited).toMatchObject({ code: 1 })
  expect(told).toMatch(/^fencepost failed: TypeError\n {4}at .*crash-on-hangup\.mjs:\d+:\d+/m)
  expect(told).toMatch(/^caused by: SyntaxError$/m)
  expect(found(told)).toEqual([])
  const written = JSON.parse(await report()) as Record<string, unknown>
  expect(written.header).toMatchObject({ trigger: expect.any(String), processId: sidecar.process.pid })
  expect(written.javascriptStack).toMatchObject({
    stack: expect.arrayContaining([expect.stringContaining('crash-on-hangup')]),
  })
  expect(found(JSON.stringify(written))).toEqual([])
})

test('a report requested by a signal lists no environment', async () => {
  sidecar.process.signal('SIGUSR2')
  const written = await report()
  expect(JSON.parse(written)).toMatchObject({ header: { trigger: 'Signal' } })
  expect(found(written)).toEqual([])
})

test('Node options that write memory to disk are named at the start, not refused', async () => {
  await using warned = await startSidecar(
    {
      FENCEPOST_REDIS_NODES: 'embedded',
      NODE_OPTIONS: `--heapsnapshot-near-heap-limit=1 --diagnostic-dir=${folder} --trace-warnings`,
    },
    {
      onOutput: (text) => {
        told += text
      },
    },
  )
  expect(warned.api).not.toBe('')
  expect(told.match(/^--\S+ is given/gm)).toEqual(['--heapsnapshot-near-heap-limit is given'])
})
