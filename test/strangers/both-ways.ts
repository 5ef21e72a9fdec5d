/**
 * A public client, run against an application directly and through the sidecar with the built-in policy: what the client returns has to be
 * the same, and what the application executed.
 *
 *     { client: 'got', does: 'sends again after 503', application: failsOnce(503), act: (origin) => got.put(…).json(), executed: 2 }
 */
import { expect } from 'vitest'
import { loadConfig } from '../../src/config/load.ts'
import { type Respond, startApplication, type TestApplication } from '../support/application.ts'
import { startLosingRelay } from '../support/losing-relay.ts'
import { startProxy } from '../support/proxy.ts'

const loaded = loadConfig(
  { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:9' },
  () => '',
)
if (loaded.kind === 'invalid') throw new Error('the default configuration is invalid')
/** Of a sidecar without a file. */
export const BUILTIN_ROUTES = loaded.config.routes

export type Stranger = {
  readonly client: string
  readonly does: string
  /** New for each run. Default: 201, and the number of the execution in JSON. */
  readonly application?: () => Respond
  /** @returns what the client made of the answers, as JSON: the same in each run of an application that is as good as new */
  readonly act: (origin: string) => Promise<unknown>
  /** What the application executes, directly. */
  readonly executed: number
  /** The first answer is lost on its way to the client: what is executed then through the sidecar. */
  readonly executedThough?: number
}

type Run = { readonly returned: string; readonly executed: readonly string[] }

export async function runBothWays(stranger: Stranger): Promise<void> {
  const directly = await withApplication(stranger, (application) =>
    run(stranger, application, application.origin),
  )
  const through = await withApplication(stranger, async (application) => {
    await using proxy = await startProxy(application.origin, { routes: BUILTIN_ROUTES })
    const ran = await run(stranger, application, proxy.origin)
    expect(proxy.failures).toEqual([])
    return ran
  })
  expect(directly.executed, 'executed directly').toHaveLength(stranger.executed)
  if (stranger.executedThough === undefined) expect(through).toEqual(directly)
  else expect(through.executed, 'executed through the sidecar').toHaveLength(stranger.executedThough)
}

async function withApplication<T>(
  { application }: Stranger,
  use: (application: TestApplication) => Promise<T>,
): Promise<T> {
  await using running = await startApplication(application?.())
  return await use(running)
}

async function run(
  { act, executedThough }: Stranger,
  { seen }: TestApplication,
  origin: string,
): Promise<Run> {
  await using relay = executedThough === undefined ? undefined : await startLosingRelay(origin)
  relay?.loseNextAnswer()
  const at = relay?.origin ?? origin
  const returned = JSON.stringify(await act(at)) ?? 'nothing'
  return {
    returned: returned.replaceAll(at, 'http://origin'),
    executed: seen.map(
      ({ method, target, body }) => `${method} ${target.replaceAll(UUID, 'uuid')} ${body.length}`,
    ),
  }
}

/** Which request it is, as its client draws it. */
const UUID = /[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g

/** The first `times` requests get this answer, the others 201. */
export function failing(status: number, headers: Record<string, string> = {}, times = 1): () => Respond {
  return () => (_, response, execution) => {
    if (execution <= times) response.writeHead(status, headers).end()
    else json(response, 201, { execution })
  }
}

export function json(
  response: Parameters<Respond>[1],
  status: number,
  value: unknown,
  headers: Record<string, string> = {},
): void {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(value))
}
