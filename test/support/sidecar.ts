/**
 * The sidecar as its users run it: `fencepost serve` in its own process, on ports that the system chooses.
 *
 *     await using sidecar = await startSidecar({ ...PATIENT, ...between(servers, application) })
 *     await fetch(sidecar.proxy + '/payments', …)
 */

import { MAIN_PROGRAM } from './main-program.ts'
import { startedIn } from './memory-cgroup.ts'
import { TestProcess } from './processes.ts'

export type Sidecar = AsyncDisposable & {
  readonly process: TestProcess
  /** Addresses of its listeners, `http://127.0.0.1:…`; empty where one is off. */
  readonly proxy: string
  readonly api: string
  readonly admin: string
  readonly gateway: string
  readonly gatewayGrpc: string
  readonly operator: string
}

/**
 * For tests without timing: by default a sidecar gives the nodes 100 ms and then answers 503, and a busy machine may
 * delay a server for longer.
 */
export const PATIENT = {
  FENCEPOST_NODE_DEADLINE: '1s',
  FENCEPOST_CLAIM_BUDGET: '5s',
  FENCEPOST_SETTLE_BUDGET: '10s',
} as const

/** A lease that a test waits for, longer than a pause of the machine; the deadline is the largest that it allows. */
export const SHORT_LEASE = { ...PATIENT, FENCEPOST_LEASE: '6s', FENCEPOST_NODE_DEADLINE: '300ms' }

/** The two settings that every sidecar has: its nodes, and its application. */
export function between(
  nodes: 'embedded' | { readonly nodesSetting: string },
  application: { readonly url: string } | { readonly origin: string },
) {
  return {
    FENCEPOST_REDIS_NODES: nodes === 'embedded' ? nodes : nodes.nodesSetting,
    FENCEPOST_UPSTREAM: 'url' in application ? application.url : application.origin,
  }
}

export type SidecarOptions = {
  /** Another build's main program. */
  readonly main?: string
  readonly onOutput?: (text: string) => void
  /** The time limit of its start. */
  readonly startWithinMs?: number
  /** The `cgroup.procs` of the cgroup that it joins before it starts. */
  readonly joins?: string
}

/** @param env settings; all listeners are on free ports of the loopback unless said otherwise */
export async function startSidecar(
  env: Readonly<Record<string, string>>,
  { main = MAIN_PROGRAM, onOutput, startWithinMs = 20_000, joins }: SidecarOptions = {},
): Promise<Sidecar> {
  const [command, ...args] = startedIn(joins, [process.execPath, main, 'serve'])
  const child = new TestProcess(command, args, {
    name: 'fencepost serve',
    ...(onOutput === undefined ? {} : { onOutput }),
    env: {
      FENCEPOST_PROXY_LISTEN: env.FENCEPOST_UPSTREAM === undefined ? 'off' : '127.0.0.1:0',
      FENCEPOST_API_LISTEN: '127.0.0.1:0',
      FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
      // Limits how long abandoned reservations of a test delay a draining sidecar.
      FENCEPOST_DRAIN_TIMEOUT: '2s',
      // A busy or stalled machine must not look like nodes that are away.
      FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s',
      FENCEPOST_CLAIM_BUDGET: '3s',
      ...env,
    },
  })
  try {
    const [line] = await child.line(/^\{.*"message":"fencepost is serving".*$/, {
      withinMs: startWithinMs,
    })
    const { addresses } = JSON.parse(line) as {
      addresses: Partial<Record<'proxy' | 'api' | 'admin' | 'gateway' | 'gatewayGrpc' | 'operator', string>>
    }
    const { proxy = '', api = '', admin = '', gateway = '', gatewayGrpc = '', operator = '' } = addresses
    return {
      process: child,
      proxy,
      api,
      admin,
      gateway,
      gatewayGrpc,
      operator,
      [Symbol.asyncDispose]: () => child[Symbol.asyncDispose](),
    }
  } catch (cause) {
    await child[Symbol.asyncDispose]()
    throw cause
  }
}
