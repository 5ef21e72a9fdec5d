/** The operator API, as configured. */

import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import type { Clock, Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { RecentDecisions } from '../core/operator/recent-decisions.ts'
import { recordView } from '../core/operator/record-view.ts'
import type { PrincipalRules, VerifyToken } from '../core/request/principal.ts'
import type { ReservationSecret } from '../core/reservations/reservation-secret.ts'
import type { NodeSlowLog, OverviewFacts } from '../http/operator/overview.ts'
import type { PageFileName, PageFiles } from '../http/operator/page.ts'
import { createOperatorApi, type OperatorApi } from '../http/operator/server.ts'
import type { Application } from '../http/proxy/application.ts'
import { readNodeStats } from '../redis/node-details.ts'
import type { RedisNodes } from '../redis/nodes.ts'
import { headLimits, jsonBytesMax, type SizedConfig } from './listener-limits.ts'
import { walkOver } from './record-walk.ts'
import type { Secrets } from './secrets.ts'
import { askOf, decisionTermsOf } from './settle-question.ts'
import type { Stack } from './stack.ts'
import { StartRefused } from './start-refused.ts'

export type OperatorListenerPorts = {
  readonly stack: Stack
  readonly secret: ReservationSecret
  readonly instance: string
  readonly clock: Clock
  readonly random: Random
  readonly events: Events
  readonly recent: RecentDecisions
  readonly overview: () => OverviewFacts
  readonly application: Pick<Application, 'forward'> | undefined
  readonly onFailure: (error: unknown, instance: string) => void
  /** What is written to the log, and answered to nobody. */
  readonly onTrouble: (error: unknown) => void
}

/** A token that support has is mostly expired, and here it only says whose record is looked for. */
const BELIEVED: VerifyToken = async () => ({ kind: 'verified' })

/**
 * The operator API, or undefined if it is off.
 *
 * @throws StartRefused where there is no audit log
 */
export function openOperatorApi(
  config: SizedConfig,
  secrets: Secrets,
  principal: PrincipalRules,
  { stack, secret, onTrouble, application, instance, ...ports }: OperatorListenerPorts,
): OperatorApi | undefined {
  const tokens = secrets.operatorTokens
  if (config.operatorListen.kind === 'off' || tokens === undefined) return undefined
  const { auditLog, operated } = stack
  if (auditLog === undefined)
    throw new StartRefused(
      'FENCEPOST_OPERATOR_LISTEN needs Redis nodes: embedded ones keep no audit log, and end with the process',
    )
  const { tenant, env, apiVersion } = config
  const groups = stack.coordinated.map(({ redis }) => redis)
  return createOperatorApi(
    {
      scope: { tenant, env, apiVersion },
      describing: { routes: config.routes, principal: { ...principal, verifyToken: BELIEVED } },
      secret,
      instance,
      runbookUrl: config.runbookUrl,
      storedBytesMax: config.storedResponseLimitBytes,
      tokens,
      page: readPage(),
      ...secrets.tls('operator'),
      limits: { ...headLimits(config), bodyBytesMax: jsonBytesMax(config.storedResponseLimitBytes) },
    },
    {
      ...ports,
      ...walkOver(groups, ports.clock),
      slowLogs: () => readSlowLogs(groups, ports.clock),
      leases: operated.leases,
      auditLog,
      terms: decisionTermsOf(config),
      ask: askOf(config, { application, clock: ports.clock, onFailure: onTrouble }),
      inspect: async (recordKey) => recordView(recordKey, await operated.inspect(recordKey)),
      forgetHere: (recordKey) => stack.leases.forget(recordKey),
      isHeldHere: (recordKey) => stack.leases.isHeld(recordKey),
      sidecarOf: operated.sidecarOf,
      newInstance: () => randomUUID(),
    },
  )
}

const FOLDERS = ['../page/', '../../dist/page/']

const TYPES: Readonly<Record<PageFileName, string>> = {
  'index.html': 'text/html; charset=utf-8',
  'app.css': 'text/css; charset=utf-8',
  'app.js': 'text/javascript; charset=utf-8',
  'icon.svg': 'image/svg+xml',
}

/** Read once, beside the built program, or from `dist/` where the sources run; undefined where the page was never built. */
function readPage(): PageFiles | undefined {
  const folder = FOLDERS.map((path) => new URL(path, import.meta.url)).find((url) =>
    existsSync(new URL('app.js', url)),
  )
  if (folder === undefined) return undefined
  const names = Object.keys(TYPES) as PageFileName[]
  const files = names.map((name) => [name, { type: TYPES[name], body: readFileSync(new URL(name, folder)) }])
  return Object.fromEntries(files) as PageFiles
}

const ANSWER_WITHIN_MS = 1_000

/** As they are now, for one question of an operator; the elected sidecar collects them by itself. */
function readSlowLogs(groups: readonly RedisNodes[], clock: Clock): Promise<readonly NodeSlowLog[]> {
  return Promise.all(
    groups
      .flatMap(({ members }) => members)
      .map(async ({ node, client }) => ({
        node: node.name,
        look: await readNodeStats(client, ANSWER_WITHIN_MS, clock).catch(() => undefined),
      })),
  )
}
