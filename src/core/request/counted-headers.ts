/**
 * Which headers tell two requests apart.
 *
 * Owns the rule: where the content is the key, every header does but those of {@link CHANGING}, which are known to change between two tries
 * of one request. A name that is missing there costs a second execution of a retry, as without us; one too many would lose a request.
 * So a name belongs there only if two different requests would not differ in it alone, or their sender could not mean it.
 * Where a key says which request it is, only {@link COMPARED_WITH_KEY} counts: a header that nobody knows must not make a retry a mismatch.
 */

import { type HeaderList, isReadAsOneOf, linesOf, readName, trimOws } from '../header-list.ts'
import { METHOD_OVERRIDES } from '../routes/path-pattern.ts'
import { lastingCookies } from './lasting-cookies.ts'

/** By what they are about: exact names, and beginnings where a name ends in `*`. */
const CHANGING: Readonly<Record<string, string>> = {
  // RFC 9110, section 7.6.1, beside what Connection names; how the body is framed. They end at the next hop.
  'one hop, and framing':
    'connection keep-alive proxy-connection proxy-authenticate proxy-authorization proxy-authentication-info te trailer transfer-encoding upgrade http2-settings content-length expect max-forwards',
  // Two gateways have two addresses. What a gateway states of the client (x-forwarded-user) is none of these, nor which host was asked.
  'the way to the application':
    'via x-forwarded-for x-forwarded-port x-forwarded-proto x-forwarded-scheme x-forwarded-server x-forwarded-ssl x-original-forwarded-for x-scheme front-end-https x-real-ip x-client-ip client-ip true-client-ip x-cluster-client-ip cf-connecting-ip cf-connecting-ipv6 cf-ew-via cf-ipcountry cf-ray cf-visitor cf-worker cdn-loop fastly-client-ip fastly-ff fly-client-ip fly-region x-azure-clientip x-azure-requestchain x-azure-socketip x-appengine-user-ip x-nf-client-connection-ip x-vercel-forwarded-for x-envoy-decorator-operation x-envoy-external-address x-envoy-internal x-envoy-peer-metadata x-envoy-peer-metadata-id x-request-start x-queue-start fencepost-* idempotency-status idempotent-replayed idempotency-created-at',
  // Made anew by each hop, or each try.
  tracing:
    'traceparent tracestate baggage ce-traceparent ce-tracestate b3 x-b3-* x-request-id request-id x-correlation-id correlation-id x-trace-id x-span-id x-amz-cf-id x-amzn-requestid x-amzn-trace-id x-arr-log-id x-azure-ref x-cloud-trace-context x-kong-request-id x-nf-request-id fly-request-id x-vercel-id x-varnish grpc-trace-bin uber-trace-id sentry-trace newrelic x-newrelic-id x-newrelic-transaction x-datadog-* elastic-apm-traceparent x-ot-span-context ot-tracer-* x-instana-* x-dynatrace singularityheader sw8 sw8-correlation sw8-x request-context x-ms-client-request-id x-ms-correlation-request-id x-ms-request-id x-ms-request-root-id',
  // A client that tries again may say more of itself, or measure its network anew. Sec-Fetch-Site decides what is allowed, and counts.
  'the user agent, and its hints':
    'user-agent sec-ch-* device-memory dpr viewport-width rtt downlink ect save-data x-client-data x-amz-user-agent x-goog-api-client x-stripe-client-telemetry',
  // Of the message, not of what it says. Of webhooks those whose documentation says that each try is signed anew.
  'dates, signatures and nonces':
    'date x-date x-amz-date x-ms-date x-timestamp x-nonce signature signature-input x-signature dpop webhook-signature webhook-timestamp svix-signature svix-timestamp stripe-signature paddle-signature x-slack-signature x-slack-request-timestamp x-zm-signature x-zm-request-timestamp x-twilio-email-event-webhook-signature x-twilio-email-event-webhook-timestamp',
  // Beside what ends as ATTEMPTS says.
  'counters of attempts, and deadlines':
    'amz-sdk-request x-retry x-atlassian-webhook-retry x-slack-retry-reason upstash-retried aeg-delivery-count x-aws-sqsd-receive-count x-cloudtasks-taskretrycount x-cloudtasks-taskexecutioncount x-cloudtasks-tasketa x-cloudtasks-taskretryreason x-cloudtasks-taskpreviousresponse grpc-timeout x-envoy-attempt-count x-envoy-expected-rq-timeout-ms x-envoy-is-timeout-retry x-stainless-timeout',
  // A page that is loaded again. Conditions (If-Match) count.
  'caching directives': 'cache-control pragma',
}

/** Whole names, or behind a dash. A request that numbers itself says that it is a try of the same thing. */
const ATTEMPTS =
  /(^|-)(attempt|attempts|attempt-count|attempt-num|attempt-number|retries|retry-attempt|retry-count|retry-num|retry-number)$/

/**
 * With a key: what is asked for beside method, target and content, and for which account of several. In these names a sign that is no
 * letter or digit is a dash (`readName`).
 */
export const COMPARED_WITH_KEY: Readonly<Record<string, string>> = {
  'another method': METHOD_OVERRIDES,
  'a part of the whole':
    'content-range upload-offset upload-length upload-defer-length upload-metadata upload-concat upload-complete x-goog-upload-command x-goog-upload-offset',
  'another resource': 'destination depth overwrite slug x-amz-copy-source',
  'a procedure':
    'soapaction x-amz-target x-acs-action x-tc-action next-action rsc-action-id x-server-id x-qrl x-october-request-handler x-winter-request-handler',
  'a trial, a replacement':
    'dry-run x-dry-run x-dryrun x-validate-only x-up-validate precognition precognition-validate-only prefer',
  'one of several stores':
    'content-profile accept-profile x-clickhouse-database surreal-ns surreal-db x-vault-namespace',
  'an account': 'stripe-context sudo',
}

/** Of the names of accounts: whole names, or behind a dash. */
const ACCOUNTS =
  'account account-id customer-id company-id merchant-id on-behalf-of org-id orgid organization organization-id project project-id shop-domain store-id team-id workspace-id'

/** Components of the fingerprint by themselves. */
export const OWN_COMPONENTS = new Set(['authorization', 'content-type', 'content-encoding'])

const changing = Object.values(CHANGING).flatMap((names) => names.split(' '))
const CHANGING_NAMES = new Set(changing)
const CHANGING_BEGINNINGS = changing.filter((name) => name.endsWith('*')).map((name) => name.slice(0, -1))
const WITH_KEY = new Set(Object.values(COMPARED_WITH_KEY).flatMap((names) => names.split(' ')))
const ACCOUNT = new RegExp(`(^|-)(${ACCOUNTS.replaceAll(' ', '|')})$`)

/** @param name in lower case, as it is written: another spelling of a name is not known to be the same header */
export function isChanging(name: string): boolean {
  return (
    CHANGING_NAMES.has(name) ||
    ATTEMPTS.test(name) ||
    CHANGING_BEGINNINGS.some((beginning) => name.startsWith(beginning))
  )
}

/** @param name as `readName` gives it */
export function isComparedWithKey(name: string): boolean {
  return WITH_KEY.has(name) || ACCOUNT.test(name)
}

/** What a route says of its headers, compiled. */
export type HeaderRules = {
  /** `all`: every header that {@link isChanging} does not name; else these and no others. In lower case. */
  readonly headers: 'all' | readonly string[]
  /** They never count: names in lower case, and `cookie:` with the name of a cookie. */
  readonly ignored: ReadonlySet<string>
}

/** Each header as a list: its name in lower case, then each of its lines as it came; of `cookie` and `forwarded` what counts. Sorted by name. */
export type CountedHeaders = readonly (readonly string[])[]

/** @param clientStated the route knows its clients by what the request says elsewhere: then its cookies say nothing */
export function countedByContent(
  headers: HeaderList,
  { headers: chosen, ignored }: HeaderRules,
  clientStated: boolean,
): CountedHeaders {
  if (chosen !== 'all') return collect(headers, (name) => isReadAsOneOf(chosen, name), ignored, chosen)
  const nominated = new Set(
    linesOf(headers, 'connection').flatMap((line) => line.toLowerCase().split(',').map(trimOws)),
  )
  const counts = (name: string) =>
    !(OWN_COMPONENTS.has(name) || isChanging(name) || nominated.has(name)) &&
    !(clientStated && name === 'cookie')
  return collect(headers, counts, ignored, [])
}

/** RFC 7239: the rest says which way a request came, and changes with it. Wide: what only looks like a host counts too. */
function forwardedHosts(line: string): string | undefined {
  return line.match(/host\s*=\s*("(?:[^"\\]|\\.)*"|[^,;]*)/gi)?.join(';')
}

/** A chosen header is always there, without a line where the request has none. */
export function countedWithKey(
  headers: HeaderList,
  { headers: chosen, ignored }: HeaderRules,
): CountedHeaders {
  const named = chosen === 'all' ? [] : chosen
  const counts = (name: string) => isReadAsOneOf(named, name) || isComparedWithKey(readName(name))
  return collect(headers, counts, ignored, named)
}

function collect(
  headers: HeaderList,
  counts: (name: string) => boolean,
  ignored: ReadonlySet<string>,
  always: readonly string[],
): CountedHeaders {
  const found = new Map<string, string[]>(always.map((name) => [name, []]))
  for (const [header, line] of headers) {
    const name = header.toLowerCase()
    if (!counts(name) || ignored.has(name)) continue
    const counted =
      name === 'cookie' ? lastingCookies(line, ignored) : name === 'forwarded' ? forwardedHosts(line) : line
    if (counted === undefined) continue
    const lines = found.get(name)
    if (lines === undefined) found.set(name, [counted])
    else lines.push(counted)
  }
  return [...found].map(([name, lines]) => [name, ...lines]).sort(([a = ''], [b = '']) => (a < b ? -1 : 1))
}
