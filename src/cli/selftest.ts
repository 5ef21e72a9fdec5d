/**
 * `fencepost selftest`: whether an installation works, for `helm test`.
 *
 *   acquire → a duplicate is refused → release → acquire again → release; then how many of the nodes vote
 *
 * By default it starts its own sidecar, from the same configuration, listening on loopback only; `--url` names a
 * running one. It uses the API like any other caller, under a tenant of its own, and leaves records of one second.
 */

import { randomUUID } from 'node:crypto'
import { StartRefused } from '../app/start-refused.ts'
import { createApp } from '../app.ts'
import { loadConfig } from '../config/load.ts'
import { type NodeStatus, placeOf } from '../core/node-status.ts'
import {
  type Command,
  EXIT,
  type ExitCode,
  faultOfAddress,
  faultOfToken,
  type Io,
  refused,
  refusedConfig,
  tokenAt,
  tokenIn,
  withArguments,
} from './command.ts'

type Options = {
  readonly url?: string
  readonly admin?: string
  readonly tokenFile?: string
  readonly majority?: true
}

type Target = { readonly api: string; readonly admin: string | undefined; readonly token: string | undefined }

const TIMEOUT_MS = 5_000
const TENANT = 'fencepost-selftest'

export const selftest: Command = (args, io) =>
  withArguments('selftest', args, io, (parser, done) => {
    parser
      .description(
        'reserves, is refused a duplicate, releases and reserves again; exit 69 where a step fails',
      )
      .option('--url <address>', 'of the reservation API of a running sidecar, such as http://127.0.0.1:8081')
      .option('--admin <address>', 'of its admin listener, to see how many nodes vote')
      .option('--token-file <path>', 'file with the bearer token that it asks for')
      .option('--majority', 'be content with a majority of the nodes')
      .action(async (options: Options) => done(await run(options, io)))
  })

async function run(options: Options, io: Io): Promise<ExitCode> {
  const { url, admin, tokenFile } = options
  if (url !== undefined) {
    const fault = faultOfAddress('--url', [url]) ?? faultOfAddress('--admin', [admin])
    if (fault !== undefined) return refused(io, fault)
    const read = tokenAt(tokenFile, io)
    if ('fault' in read) return refused(io, read.fault, EXIT.configuration)
    const api = url.replace(/\/+$/, '')
    return check({ api, admin: admin?.replace(/\/+$/, ''), token: read.token }, options, io)
  }
  const loaded = loadConfig({ ...io.env, ...OWN_LISTENERS }, io.readFile)
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  try {
    const { version, nodeVersion, hostname, readFile, stderr: logTo } = io
    await using app = await createApp(loaded.config, { version, nodeVersion, hostname, readFile, logTo })
    const { api = '', admin: adminAddress } = app.addresses
    const { apiToken } = loaded.config
    const token = apiToken === undefined ? undefined : tokenIn(apiToken.content)
    const target = { api, admin: adminAddress, token }
    // Awaited here, because leaving this function closes the sidecar.
    return await check(target, options, io)
  } catch (cause) {
    if (!(cause instanceof StartRefused)) throw cause
    return refused(io, cause.message, EXIT.unavailable)
  }
}

const OWN_LISTENERS = {
  FENCEPOST_PROXY_LISTEN: 'off',
  FENCEPOST_API_LISTEN: '127.0.0.1:0',
  FENCEPOST_GATEWAY_LISTEN: 'off',
  FENCEPOST_GATEWAY_GRPC_LISTEN: 'off',
  FENCEPOST_OPERATOR_LISTEN: 'off',
  FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
  // Only this process reaches these two, and no certificate is for 127.0.0.1.
  FENCEPOST_TLS_LISTENERS: 'proxy',
  FENCEPOST_LOG_LEVEL: 'error',
}

/** A step with a wrong result; the message says which. */
class StepFailed extends Error {
  override readonly name = 'StepFailed'
}

async function check(target: Target, { majority }: Options, io: Io): Promise<ExitCode> {
  const fault = faultOfToken(target.token)
  if (fault !== undefined) return refused(io, fault, EXIT.configuration)
  const say = (line: string) => void io.stdout.write(`${line}\n`)
  const value = `selftest-${randomUUID()}`
  const reserve = (expected: number) =>
    call(target, '/v1/reservations', expected, {
      session_id: randomUUID(),
      reserved_value: value,
      tenant: TENANT,
      retention: '1s',
    })
  const release = ({ reservation_id, fencing_token }: Reply) =>
    call(target, `/v1/reservations/${reservation_id}/release`, 200, { fencing_token })
  try {
    const first = await reserve(201)
    say(`ok    acquired, fencing token ${first.fencing_token}`)
    const refused = await reserve(409)
    say(`ok    a duplicate is refused: ${refused.reservation_status}`)
    await release(first)
    say('ok    released')
    const second = await reserve(201)
    if (Number(second.fencing_token) <= Number(first.fencing_token))
      throw new StepFailed(`the second token ${second.fencing_token} is not above the first`)
    await release(second)
    say(`ok    acquired again under a larger token, ${second.fencing_token}`)
    const reached = target.admin === undefined ? undefined : await nodesOf(target.admin)
    if (reached === undefined) return EXIT.ok
    const { voting, total, worstShare, others } = reached
    const enough = majority === true ? worstShare > 1 / 2 : voting === total
    say(`${enough ? 'ok   ' : 'FAIL '} ${voting} of ${total} nodes vote${others}`)
    return enough ? EXIT.ok : EXIT.unavailable
  } catch (error) {
    if (!(error instanceof StepFailed)) throw error
    say(`FAIL  ${error.message}`)
    return EXIT.unavailable
  }
}

type Reply = Readonly<Record<string, unknown>>

async function call(target: Target, path: string, expected: number, body: Reply): Promise<Reply> {
  const { status, json } = await request(target.api + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(target.token === undefined ? {} : { authorization: `Bearer ${target.token}` }),
    },
    body: JSON.stringify(body),
  })
  if (status === expected) return json
  const detail = typeof json.detail === 'string' ? `: ${json.detail}` : ''
  throw new StepFailed(`expected ${expected} of POST ${path.slice(0, 40)}, got ${status}${detail}`)
}

async function nodesOf(admin: string) {
  const { json } = await request(`${admin}/readyz`, {})
  const nodes = (json.nodes ?? []) as readonly NodeStatus[]
  const silent = nodes.filter(({ state }) => state !== 'voting')
  const others = silent.map(
    ({ state, reason, ...node }) =>
      `; ${placeOf(node)} is ${state}${reason === undefined ? '' : `: ${reason}`}`,
  )
  const groups = Object.values(Object.groupBy(nodes, ({ group = '' }) => group))
  const shares = groups.map((all = []) => all.filter(({ state }) => state === 'voting').length / all.length)
  const voting = nodes.length - silent.length
  return { voting, total: nodes.length, worstShare: Math.min(...shares), others: others.join('') }
}

async function request(url: string, init: RequestInit): Promise<{ status: number; json: Reply }> {
  try {
    const response = await fetch(url, { ...init, signal: AbortSignal.timeout(TIMEOUT_MS) })
    return { status: response.status, json: (await response.json()) as Reply }
  } catch (cause) {
    const why =
      cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : cause
    throw new StepFailed(`no answer from ${new URL(url).origin}: ${why}`)
  }
}
