/** The headers that count without being chosen: what is written of them elsewhere names the same ones. */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import {
  countedIn,
  lastingCookies,
  SAYING_FOR_WHOM,
  SAYING_WHAT,
  SAYING_WHICH,
  SAYING_WHICH_REQUEST,
  SAYING_WHO,
  saysWhat,
  saysWhich,
  saysWhichRequest,
  saysWho,
} from '../../../src/core/request/counted-headers.ts'

const textOf = (path: string) => readFileSync(new URL(`../../../${path}`, import.meta.url), 'utf8')

/** Names between backquotes in the rows of the table behind a heading or a sentence. */
function namesBehind(text: string, mark: string): readonly string[] {
  const [, table = ''] = /((?:^\|.*\n)+)/m.exec(text.slice(text.indexOf(mark))) ?? []
  return [...table.matchAll(/`([^`]+)`/g)].map(([, name = '']) => name.toLowerCase()).sort()
}

test('the reference names each of them', () => {
  const page = textOf('docs/reference/fingerprint.md')
  expect(namesBehind(page, '### Headers that count without being chosen')).toEqual([...SAYING_WHAT].sort())
  for (const [mark, { names, endings }] of [
    ['**For whom**', SAYING_FOR_WHOM],
    ['**Who asks**', SAYING_WHO],
    ['**Which event**', SAYING_WHICH],
    ['**Which request**', SAYING_WHICH_REQUEST],
  ] as const)
    expect(namesBehind(page, mark)).toEqual([...names, ...endings].sort())
})

test('they are found in any case, each once, sorted', () => {
  const headers = [
    ['Upload-Offset', '1'],
    ['Depth', '0'],
    ['upload-offset', '2'],
    ['accept', '*/*'],
  ] as const
  expect(countedIn(headers, saysWhat)).toEqual(['depth', 'upload-offset'])
  expect(countedIn(headers, saysWho)).toEqual([])
  // As an application may read them.
  const others = [['API_Key', 'a'] as const, ['user.id', 'b'] as const]
  expect(countedIn(others, saysWho)).toEqual(['api_key', 'user.id'])
})

test.each([
  'cookie',
  'x-authorization',
  'x-auth',
  'uid',
  'accesstoken',
  'x-authtoken',
  'x-jwt',
  'x-secret-key',
  'x-password',
  'x-device-id',
  'x-api-key',
  'dd-api-key',
  'apikey',
  'x-mbx-apikey',
  'ocp-apim-subscription-key',
  'x-auth-token',
  'private-token',
  'x-vault-token',
  'x-shopify-access-token',
  'x-session-id',
  'x-user-id',
  'remote-user',
  'x-forwarded-user',
  'x-auth-request-user',
  'x-consumer-username',
  'x-authenticated-userid',
  'x-tenant',
  'x-ms-client-principal-id',
  'x-amzn-oidc-identity',
  'x-goog-authenticated-user-id',
  'x-hasura-user-id',
  'x-hasura-role',
  'x-auth-request-email',
  'x-goog-authenticated-user-email',
  'cf-access-authenticated-user-email',
  'x-goog-iap-jwt-assertion',
  'tailscale-user-login',
  'x-userinfo',
  'x-endpoint-api-userinfo',
  'client-cert',
  'x-ssl-client-cert',
  'x-forwarded-tls-client-cert-info',
  'ssl-client-subject-dn',
  'x-ssl-client-s-dn',
  'x-ssl-client-cn',
  'x-hook-secret',
])('%s says who', (name) => expect(saysWho(name)).toBe(true))

test.each([
  'x-scope-orgid',
  'stripe-account',
  'openai-organization',
  'openai-project',
  'x-shopify-shop-domain',
  'x-on-behalf-of',
  'sudo',
  'x-account-id',
  'harvest-account-id',
])('%s says for whom, which is part of what is asked for', (name) =>
  expect([saysWhat(name), saysWho(name)]).toEqual([true, false]),
)

test.each([
  'user-agent',
  'sec-fetch-user',
  'x-csrf-token',
  'x-xsrf-token',
  'idempotency-key',
  'x-idempotency-key',
  'x-request-id',
  'x-requested-with',
  'traceparent',
  'x-amz-date',
  'x-forwarded-for',
  'x-forwarded-host',
  'sec-ch-ua-platform',
  'x-amzn-trace-id',
  'x-dns-prefetch-control',
  'accounts',
  'authorization',
  'supertoken',
  'x-request-uid',
])('%s does not', (name) => expect(saysWho(name)).toBe(false))

test.each([
  'x-shopify-topic',
  'x-shopify-webhook-id',
  'x-wc-webhook-topic',
  'x-wc-webhook-delivery-id',
  'x-github-event',
  'x-github-delivery',
  'x-gitlab-event-uuid',
  'x-event-key',
  'x-gitea-event-type',
  'aeg-event-type',
  'x-razorpay-event-id',
  'webhook-id',
  'linear-event',
  'x-amz-sns-message-id',
  'x-goog-pubsub-message-id',
  'x-aws-sqsd-msgid',
  'x-cloudtasks-taskname',
  'x-goog-channel-id',
  'x-goog-message-number',
  'x-goog-resource-id',
  'x-goog-resource-state',
  'x-zendesk-webhook-invocation-id',
  'amz-sdk-invocation-id',
  'x-atlassian-webhook-identifier',
  'readtimeutc',
  'x-hookdeck-eventid',
  'x-ms-workflow-run-id',
  'x-ms-action-tracking-id',
  'metadata-messageid',
])('%s says what happened', (name) => expect(saysWhich(name)).toBe(true))

// A sender counts its attempts, and says when and in which trace each of them is.
test.each([
  'webhook-timestamp',
  'webhook-signature',
  'ce-traceparent',
  'x-cloudtasks-taskretrycount',
  'upstash-retried',
  'x-attempt-number',
  'amz-sdk-request',
  'x-atlassian-webhook-retry',
  'x-goog-channel-expiration',
  'x-slack-retry-num',
  'x-amz-sns-topic-arn',
  'if-match',
  'accept',
])('%s does not', (name) => expect(saysWhich(name)).toBe(false))

// As banks, payment services, and their client libraries write it.
test.each([
  'x-idempotency-key',
  'cko-idempotency-key',
  'x-amz-pay-idempotency-key',
  'v-c-idempotency-id',
  'i-twilio-idempotency-token',
  'x-goog-gcs-idempotency-token',
  'idempotency',
  'x-payout-idempotency',
  'idempotence-key',
  'x-gcs-idempotence-key',
  'x-idempotence-uuid',
  'paypal-request-id',
  'repeatability-request-id',
  'x-line-retry-key',
])('%s says which request it is', (name) => expect(saysWhichRequest(name)).toBe(true))

// The key itself; what each hop or each attempt has of its own.
test.each([
  'idempotency-key',
  'idempotency-status',
  'x-request-id',
  'x-correlation-id',
  'repeatability-first-sent',
  'x-ms-client-request-id',
  'x-stainless-retry-count',
  'x-idempotency-expires',
])('%s does not', (name) => expect(saysWhichRequest(name)).toBe(false))

test('each header is in one of the lists at most', () => {
  const of = ({
    names,
    endings,
  }: {
    readonly names: readonly string[]
    readonly endings: readonly string[]
  }) => [...names, ...endings.map((ending) => `x-${ending}`)]
  const what = [...SAYING_WHAT, ...of(SAYING_FOR_WHOM)]
  const which = of(SAYING_WHICH)
  const request = of(SAYING_WHICH_REQUEST)
  expect([...what, ...which, ...request].filter(saysWho)).toEqual([])
  expect([...what, ...request].filter(saysWhich)).toEqual([])
  expect(what.filter(saysWhichRequest)).toEqual([])
})

// Bug: a line of 16 KiB took 0.3 s. Of this one a pattern that tries each space against the rest takes longer than a test may.
test('a cookie of spaces is as good as any', () => {
  const line = `a=${' '.repeat(60_000)}b`
  expect(lastingCookies([line])).toEqual([line])
})
