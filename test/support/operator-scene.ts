/**
 * What an operator's page has to be shown with: five real nodes, an application that holds answers back, and the sidecar between them.
 */
import type { ServerResponse } from 'node:http'
import { Redis } from 'ioredis'
import { startApplication } from './application.ts'
import { eventually } from './eventually.ts'
import { operatorCaller, operatorTokensFile } from './operator-caller.ts'
import { startRedisServers } from './redis-servers.ts'
import { between, PATIENT, type SidecarOptions, startSidecar } from './sidecar.ts'

/** What an application should never have answered, and what a page must never obey. */
export const HOSTILE = '<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>\u202e'

export type OperatorScene = Awaited<ReturnType<typeof openOperatorScene>>

/**
 * @param options of the sidecar's start
 * @param settings of the sidecar, further ones
 */
export async function openOperatorScene(
  options: SidecarOptions = {},
  settings: Readonly<Record<string, string>> = {},
) {
  const stack = new AsyncDisposableStack()
  try {
    // With a limit, of which the page shows the share that is used.
    const servers = stack.use(await startRedisServers(5, { founded: true, maxMemory: '64mb' }))
    const held = new Map<string, ServerResponse>()
    const application = stack.use(
      await startApplication((request, response) => {
        const [key = ''] = request.values('idempotency-key')
        const attempts = application.seen.filter((one) => one.values('idempotency-key')[0] === key).length
        if (key.startsWith('held') && attempts === 1) return void held.set(key, response)
        const hostile = key.startsWith('hostile')
        response.writeHead(201, { 'Content-Type': hostile ? 'text/html' : 'application/json' })
        response.end(hostile ? HOSTILE : `{"payment":"p-${key}","status":"captured"}`)
      }),
    )
    const tokens = stack.use(operatorTokensFile())
    const sidecar = stack.use(
      await startSidecar(
        {
          ...PATIENT,
          FENCEPOST_INSTANCE: 'payments-7d9f',
          // No renewal repairs what a test changed on one node.
          FENCEPOST_LEASE: '3m',
          ...between(servers, application),
          FENCEPOST_OPERATOR_LISTEN: '127.0.0.1:0',
          FENCEPOST_OPERATOR_TOKENS_FILE: tokens.path,
          FENCEPOST_SWEEP_INTERVAL: '1h',
          ...settings,
        },
        { startWithinMs: 60_000, ...options },
      ),
    )
    const operator = operatorCaller(sidecar.operator)
    const pay = (key: string) =>
      fetch(`${sidecar.proxy}/payments`, {
        method: 'POST',
        headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
        body: '{"amount":4200,"currency":"EUR"}',
      })
    const recordOf = async (key: string): Promise<string> => {
      const found = await operator.find({ key: { method: 'POST', path: '/payments', idempotency_key: key } })
      return found.body.records[0].record
    }
    return {
      servers,
      application,
      sidecar,
      operator,
      pay,
      recordOf,
      /** A payment that the application never answers by itself; its key begins with `held`. */
      stuck: async (key: string) => {
        const client = pay(key)
        // A test that fails in between leaves it behind.
        client.catch(() => {})
        await eventually('the application has it', () => held.has(key))
        const comeBack = async () => {
          held.get(key)?.writeHead(201).end('the holder')
          return client
        }
        return { record: await recordOf(key), comeBack }
      },
      attemptsOf: (key: string) =>
        application.seen
          .filter((one) => one.values('idempotency-key')[0] === key)
          .map((one) => one.values('fencepost-attempt')[0]),
      /** One node no longer has the record, as after a repair by hand. */
      dropOnNode: async (index: number, record: string) => {
        const client = new Redis(servers.urls[index]!)
        await client.del(record)
        client.disconnect()
      },
      /** A command that a node keeps in its slow log, as each from 10 ms on. */
      slowCommand: async (index: number, key: string) => {
        const client = new Redis(servers.urls[index]!)
        await client.eval(
          `local function us() local t = redis.call('TIME') return t[1] * 1000000 + t[2] end
           local from = us() while us() - from < 20000 do end return KEYS[1]`,
          1,
          key,
        )
        client.disconnect()
      },
      /** As many further records in the same state, whose keys come before it in the order of keys. */
      copyRecord: async (record: string, copies: number) => {
        const hashes = Array.from({ length: copies }, (_, at) => String(at).padStart(64, '0'))
        await Promise.all(
          servers.urls.map(async (url) => {
            const client = new Redis(url)
            const bytes = await client.getBuffer(record)
            const writing = client.pipeline()
            for (const hash of hashes) writing.set(`${record.slice(0, -64)}${hash}`, bytes!, 'PX', 600_000)
            await writing.exec()
            client.disconnect()
          }),
        )
      },
      [Symbol.asyncDispose]: () => stack.disposeAsync(),
    }
  } catch (cause) {
    await stack.disposeAsync()
    throw cause
  }
}
