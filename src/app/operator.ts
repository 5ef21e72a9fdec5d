/** The operator API, as configured. */

import { randomUUID } from 'node:crypto'
import type { Clock, Random } from '../core/clock.ts'
import type { Events } from '../core/events.ts'
import type { RecentDecisions } from '../core/operator/recent-decisions.ts'
import { recordView } from '../core/operator/record-view.ts'
import type { PrincipalRules, VerifyToken } from '../core/request/principal.ts'
import type { ReservationSecret } from '../core/reservations/reservation-secret.ts'
import type { OverviewFacts } from '../http/operator/overview.ts'
import { createOperatorApi, type OperatorApi } from '../http/operator/server.ts'
import type { Application } from '../http/proxy/application.ts'
import { decisionTermsOf } from './decision-terms.ts'
import { jsonBytesMax } from './json-limits.ts'
import { connectionLimit, type SizedConfig } from './listener-limits.ts'
import { readPage } from './operator-page.ts'
import { walkOver } from './record-walk.ts'
import type { Secrets } from './secrets.ts'
import { askOf } from './settle-question.ts'
import { readSlowLogs } from './slow-logs.ts'
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
): { listen(): Promise<string>; close: OperatorApi['close'] } | undefined {
  const at = config.operatorListen
  const tokens = secrets.operatorTokens
  if (at.kind === 'off' || tokens === undefined) return undefined
  const { auditLog, operated } = stack
  if (auditLog === undefined)
    throw new StartRefused(
      'FENCEPOST_OPERATOR_LISTEN needs Redis nodes: embedded ones keep no audit log, and end with the process',
    )
  const { tenant, env, apiVersion } = config
  const tls = secrets.tls('operator')
  const groups = stack.coordinated.map(({ redis }) => redis)
  const api = createOperatorApi(
    {
      scope: { tenant, env, apiVersion },
      describing: { routes: config.routes, principal: { ...principal, verifyToken: BELIEVED } },
      secret,
      instance,
      runbookUrl: config.runbookUrl,
      storedBytesMax: config.storedResponseLimitBytes,
      tokens,
      page: readPage(),
      ...(tls === undefined ? {} : { tls }),
      limits: {
        bodyBytesMax: jsonBytesMax(config.storedResponseLimitBytes),
        headerBytesMax: config.headerLimitBytes,
        headersTimeoutMs: config.headersTimeoutMs,
        requestTimeoutMs: config.requestTimeoutMs,
        keepAliveTimeoutMs: config.keepAliveTimeoutMs,
        ...connectionLimit(config),
      },
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
  return { listen: () => api.listen(at), close: (graceMs) => api.close(graceMs) }
}
