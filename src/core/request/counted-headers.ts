/**
 * Headers that count without being chosen, wherever a request has them.
 *
 * Owns the five lists, and which cookies say nothing of who asks. A header belongs here when two requests that differ in it alone
 * are two requests in the applications that read it, and when a client that tries again sends it again as it was: no counters of
 * attempts, times, traces, signatures. One that is missing here can merge two requests; one too many makes a retry another request.
 */

import { trimOws } from '../formats/field-value.ts'
import { linesOf, readName } from '../formats/header-lines.ts'
import type { HeaderList } from '../header-list.ts'

/** What is asked for, beside method, path, query and body. They are part of every fingerprint. */
export const SAYING_WHAT: ReadonlySet<string> = new Set([
  // Which part of the whole the body is: RFC 9110, section 14.5.
  'content-range',
  // Resumable uploads: tus 1.0 (https://tus.io/protocols/resumable-upload), draft-ietf-httpbis-resumable-upload, Google's.
  'upload-offset',
  'upload-length',
  'upload-defer-length',
  'upload-metadata',
  'upload-concat',
  'upload-complete',
  'x-goog-upload-command',
  'x-goog-upload-offset',
  // WebDAV: RFC 4918, section 10. Atom: RFC 5023, section 9.7.
  'destination',
  'depth',
  'overwrite',
  'slug',
  // Another method than that of the request line.
  'x-http-method-override',
  'x-http-method',
  'x-method-override',
  // Which procedure: SOAP 1.1, section 6.1.1; JSON protocols of AWS, Alibaba Cloud and Tencent Cloud; functions of Next.js, React Router
  // and Parcel, SolidStart, Qwik; October and Winter.
  'soapaction',
  'x-amz-target',
  'x-acs-action',
  'x-tc-action',
  'next-action',
  'rsc-action-id',
  'x-server-id',
  'x-qrl',
  'x-october-request-handler',
  'x-winter-request-handler',
  // The form is validated and not submitted: Laravel Precognition, Unpoly.
  'precognition',
  'precognition-validate-only',
  'x-up-validate',
  // Insert or replace, and whether it lasts: PostgREST reads it here (RFC 7240).
  'prefer',
  // Nothing is done at all. There is no standard name.
  'dry-run',
  'x-dry-run',
  'x-dryrun',
  'x-validate-only',
  // What the user clicked, and typed into a prompt: htmx.
  'hx-trigger',
  'hx-trigger-name',
  'hx-target',
  'hx-prompt',
  // What is copied, without a body: S3.
  'x-amz-copy-source',
  // Which of several stores: PostgREST, ClickHouse, SurrealDB, Vault.
  'content-profile',
  'accept-profile',
  'x-clickhouse-database',
  'surreal-ns',
  'surreal-db',
  'x-vault-namespace',
])

/**
 * For which account, of several that one credential may act for: a platform pays out from each of its customers' accounts with its own
 * secret, and may number the payments of each from one. It is part of every fingerprint, too, because a client that tries again names the
 * same account; what may be another then (a session, a token) is in {@link SAYING_WHO}.
 */
export const SAYING_FOR_WHOM = {
  names: [
    // Stripe, GitLab.
    'stripe-context',
    'sudo',
  ],
  /** Whole names, or behind a dash. A tenant is a part of the identity, where its header is believed. */
  endings: [
    'account',
    'account-id',
    'customer-id',
    'company-id',
    'merchant-id',
    'on-behalf-of',
    'org-id',
    'orgid',
    'organization',
    'organization-id',
    'project',
    'project-id',
    'shop-domain',
    'store-id',
    'team-id',
    'workspace-id',
  ],
} as const

/**
 * Which event, message or run of a schedule: a sender may put that into headers alone, and the thing itself into the body. They count where
 * the content is all that identifies a request. Where a key does, that key says which event it is, and a sender that numbers its attempts
 * must not be refused for it. Every sender has names of its own, so the end of a name counts.
 */
export const SAYING_WHICH = {
  names: [
    // Which event, where the body is its data alone: CloudEvents over HTTP, section 3.1 (binary mode); webhooks.
    'ce-id',
    'ce-source',
    'ce-type',
    'ce-subject',
    'svix-id',
    'sentry-hook-resource',
    // Which change of what, without any body: notification channels of Google Drive, Calendar and Workspace.
    'x-goog-channel-id',
    'x-goog-message-number',
    'x-goog-resource-id',
    'x-goog-resource-state',
    // Which run of a schedule: Google Cloud Scheduler, Elastic Beanstalk, the cron binding of Dapr, and which action of which run: Azure
    // Logic Apps. Their `x-ms-client-request-id` is one for each attempt.
    'x-cloudscheduler-jobname',
    'x-cloudscheduler-scheduletime',
    'x-aws-sqsd-scheduled-at',
    'readtimeutc',
    'x-ms-workflow-run-id',
    'x-ms-action-tracking-id',
  ],
  /** Whole names, or behind a dash. Senders keep all of them when they deliver the same event again. */
  endings: [
    'event',
    'event-type',
    'event-name',
    'event-key',
    'event-id',
    'event-uuid',
    'topic',
    // In one word: Hookdeck, Service Bus through Dapr.
    'eventid',
    'webhook-id',
    'webhook-identifier',
    'invocation-id',
    'delivery',
    'delivery-id',
    'message-id',
    'messageid',
    'message-type',
    'msgid',
    'taskname',
  ],
} as const

/**
 * Which request, as its client calls it: idempotency keys by another name than `Idempotency-Key`. They count where the content is all that
 * identifies a request, because a client that names two requests means two. They are no key of the route: its own `key.headers` name that.
 * In mode `both` they say nothing of the content, which is one there under whatever name it comes.
 */
export const SAYING_WHICH_REQUEST = {
  names: [
    // PayPal. OASIS Repeatable Requests 1.0, as Azure takes them.
    'paypal-request-id',
    'repeatability-request-id',
  ],
  /**
   * Behind a dash, or whole names but for that of the standard: a route that goes by the content of requests with `Idempotency-Key` is for
   * clients whose keys say nothing. `X-Idempotency-Key` (Open Banking, Mercado Pago), `Cko-Idempotency-Key`, `v-c-idempotency-id`,
   * `X-Goog-Gcs-Idempotency-Token`, `Idempotency` (Rapyd), `X-Payout-Idempotency` (Razorpay), `X-GCS-Idempotence-Key`, `Idempotence-Key` (YooKassa),
   * `X-Idempotence-Uuid` (Wise), `X-Line-Retry-Key`.
   */
  endings: [
    'idempotency-key',
    'idempotencykey',
    'idempotency-id',
    'idempotency-token',
    'idempotency',
    'idempotence-key',
    'idempotence-uuid',
    'idempotent-key',
    'retry-key',
  ],
} as const

/** Its key is that of the route, or of none. */
const STANDARD_KEY = 'idempotency-key'

/**
 * Who asks, beside `Authorization`: sessions, keys, and the names that authenticating gateways state. They count where the content is
 * all that identifies a request, and nobody has said by what the route knows its clients. Every API calls its key by a name of its own, so
 * it is the end of a name that counts.
 */
export const SAYING_WHO = {
  names: [
    'cookie',
    // In the place of Authorization, where that is taken.
    'x-authorization',
    'x-auth',
    // devise_token_auth. As an ending it would be that of many numbers of a request.
    'uid',
    'x-uid',
    // Certificates, as Envoy, Azure and AWS state them.
    'x-forwarded-client-cert',
    'x-arr-clientcert',
    'x-amzn-mtls-clientcert',
    'x-amzn-mtls-clientcert-subject',
  ],
  /** Whole names, or behind a dash. */
  endings: [
    'api-key',
    'apikey',
    'access-key',
    'auth-key',
    'consumer-key',
    'secret-key',
    'subscription-key',
    'token',
    // In the spelling of JavaScript and Java, `accessToken`.
    'accesstoken',
    'apitoken',
    'authtoken',
    'sessiontoken',
    'jwt',
    'secret',
    'password',
    // Users without an account, of a game or a shop.
    'device-id',
    'deviceid',
    'session',
    'session-id',
    'sessionid',
    'user',
    'user-id',
    'userid',
    'username',
    'consumer-id',
    'credential-identifier',
    'tenant',
    'tenant-id',
    'principal-id',
    'oidc-identity',
    'client-id',
    'email',
    'jwt-assertion',
    'role',
    'user-login',
    'userinfo',
    // Certificates: RFC 9440, nginx, HAProxy, Traefik.
    'client-cert',
    'client-cert-info',
    'client-cn',
    'client-dn',
    's-dn',
    'subject-dn',
  ],
  /** Parts of names that have such an ending, and say what a browser or a form did, or which request it is. */
  except: ['sec-fetch', 'csrf', 'xsrf', 'idempotency'],
} as const

/**
 * Cookies that are written anew while a user does one thing, beside others that say who it is: the clock of a visit (Google Analytics
 * beside `_ga`, Clarity beside `_clck`), and which server answered last (AWS). With them the second of two clicks on one button would be
 * another user's. Only such belong here, by their exact names: one that alone tells two visitors apart does not.
 */
const CHANGING_COOKIE = /^(_ga_[0-9A-Z]+|_clsk|AWSALB(TG)?(CORS)?)=/

/** The lines of `Cookie` that say who asks: without those cookies, and otherwise as they came. */
export function lastingCookies(lines: readonly string[]): readonly string[] {
  return lines.flatMap((line) => {
    const pairs = line.split(';').map(trimOws)
    const lasting = pairs.filter((pair) => !CHANGING_COOKIE.test(pair))
    if (lasting.length === pairs.length) return [line]
    return lasting.length === 0 ? [] : [lasting.join('; ')]
  })
}

const FOR_WHOM = named(SAYING_FOR_WHOM)
const WHICH = named(SAYING_WHICH)
const WHICH_REQUEST = named(SAYING_WHICH_REQUEST)
const WHO = named(SAYING_WHO)
const NOT_WHO = new RegExp(SAYING_WHO.except.join('|'))

/** @param name as `readName` gives it */
export function saysWho(name: string): boolean {
  return WHO.test(name) && !NOT_WHO.test(name)
}

/** @param name as `readName` gives it */
export function saysWhat(name: string): boolean {
  return SAYING_WHAT.has(name) || FOR_WHOM.test(name)
}

/** @param name as `readName` gives it */
export function saysWhich(name: string): boolean {
  return WHICH.test(name)
}

/** @param name as `readName` gives it */
export function saysWhichRequest(name: string): boolean {
  return name !== STANDARD_KEY && WHICH_REQUEST.test(name)
}

function named({
  names,
  endings,
}: {
  readonly names: readonly string[]
  readonly endings: readonly string[]
}) {
  return new RegExp(`^(${names.join('|')})$|(^|-)(${endings.join('|')})$`)
}

const NONE: readonly string[] = Object.freeze([])

/** @returns the names of those that the request has, as it writes them in lower case, sorted, each once */
export function countedIn(headers: HeaderList, counts: (name: string) => boolean): readonly string[] {
  // Most requests have none.
  let found: Set<string> | undefined
  for (const [header] of headers) {
    const name = header.toLowerCase()
    // An application may well read `api_key`: it is a key by that name, too.
    if (!counts(readName(name))) continue
    found ??= new Set()
    found.add(name)
  }
  return found === undefined ? NONE : [...found].sort()
}

/** Each header as a list of its own: its name, then each of its lines as it came. */
export function asLists(headers: HeaderList, names: readonly string[]): readonly (readonly string[])[] {
  return names.map((name) => [name, ...linesOf(headers, name)])
}
