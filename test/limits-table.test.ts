/**
 * Every limit of docs/reference/http.md is reached by a test, which is named here by its file and words of
 * its title.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '..')

const LIMITS = 'test/http/proxy/limits.test.ts'
const BODIES = 'test/http/proxy/body-memory.test.ts'
const BEYOND = '%s above its limit gets the limit in the answer'

// biome-ignore format: one line a row of the page
const REACHED: Record<string, readonly (readonly [file: string, title: string])[]> = {
  'head of a request, its target included': [[LIMITS, BEYOND], ['test/http/proxy/framing.test.ts', 'a target above 16 KiB']],
  'header lines': [[LIMITS, BEYOND]],
  'time for the head': [[LIMITS, 'a slow head']],
  'time for the whole request': [[LIMITS, 'a slow body']],
  'body of a protected request': [[LIMITS, "'a body'"]],
  'the same when decoded, for the fingerprint': [[LIMITS, 'a body that decodes to %i bytes']],
  'stored answer': [['test/http/proxy/answers.test.ts', 'an answer too large to be stored']],
  'head of an answer': [['test/http/proxy/upstream.test.ts', 'a head above 64 KiB']],
  'bodies of requests in flight, together': [[BODIES, 'gets 503 with Retry-After and the limit'], ['test/http/gateway/tenants.test.ts', 'a check whose body does not fit']],
  'bodies of requests and answers in flight, together': [[BODIES, 'is passed on and not kept']],
  'requests in flight, WebSockets included': [[LIMITS, 'requests in flight and waiting duplicates get their limits']],
  'those of them that no route protects': [[LIMITS, 'takes no more than three quarters of the places']],
  'protected requests and checks of one tenant in flight': [[LIMITS, 'a tenant with too many %s gets the limit'], ['test/http/gateway/tenants.test.ts', 'a tenant with too many checks in flight']],
  'new records of one tenant within a second': [[LIMITS, 'a tenant with too many %s gets the limit'], ['test/http/gateway/tenants.test.ts', 'a tenant with too many new records']],
  'waiting duplicates of one route': [[LIMITS, 'requests in flight and waiting duplicates get their limits']],
  'waiting of one of them': [['test/http/proxy/answers.test.ts', 'a duplicate whose wait ends is in progress']],
  'connections to the application': [[LIMITS, 'protected requests may have all connections']],
  'those of them for requests that no route protects': [[LIMITS, 'takes no more than three quarters of the connections']],
  'connections to the application that belong to one client each (NTLM, Negotiate), besides': [['test/http/proxy/own-connections.test.ts', 'as many connections as there may be belong to one client each']],
  'connecting to the application': [[LIMITS, 'an application that does not accept connections']],
  'the whole answer of the application; to a request that is not protected, its head': [['test/http/proxy/upstream.test.ts', 'a client gets 504 from an application that drips its body for ever'], ['test/http/proxy/bypass.test.ts', 'the time of the application is for the head of its answer']],
  'silence within a streamed answer': [['test/http/proxy/bypass.test.ts', 'an answer that falls silent is cut']],
  'a client that does not read its answer': [
    ['test/http/proxy/lifecycle.test.ts', 'a client that does not read its answer is cut off'],
    ['test/http/proxy/bypass.test.ts', 'a client that does not read the refusal of its WebSocket is cut off'],
  ],
  'connections of clients to one listener': [[LIMITS, 'connections above the limit are closed at once']],
  'requests of one connection': [[LIMITS, 'a connection is closed after its number of requests']],
  'requests of one connection that wait for their answers': [[LIMITS, 'a connection on which too many requests wait for their answers is cut']],
  'idle connection of a client': [[LIMITS, 'an idle connection is closed']],
  'the key': [[LIMITS, "'a key'"]],
  'tenant, API version': [[LIMITS, "'a tenant'"], [LIMITS, "'a version'"]],
  'handshake of TLS': [['test/app/listeners.test.ts', 'a missing handshake is cut']],
  'holding a record, renewals included': [[LIMITS, 'a request beyond the total hold']],
  'all rounds of a claim': [['test/redis/node.test.ts', 'late answers of all nodes grant and renew no lease that is over']],
  'one node, for one command': [['test/redis/node.test.ts', 'a stopped server yields timeouts']],
  'recording an outcome, while the client waits': [['test/http/proxy/answers.test.ts', 'an outcome that the quorum does not record is unstored']],
  'outcomes that are offered further': [[LIMITS, 'outcomes above the limit of background retries are given up']],
  'tenants whose new records are counted': [['test/core/request/tenant-quotas.test.ts', 'invented tenants, ten times the limit']],
  'memory for recorded outcomes': [['test/core/claims/shared-leases.test.ts', 'the longest unused first, when memory is short']],
  'memory for what is executed without a quorum (`local`)': [['test/core/quorum-loss.test.ts', 'local protection has a bound']],
  'reservations of one session, through one sidecar': [['test/support/reservation-problems.ts', "'session-reservations'"], ['test/http/proxy/problems.test.ts', 'PROBLEM_CODES']],
  'lease of a reservation': [['test/http/reservations/calls.test.ts', 'a huge lease']],
  'values of one reservation, entities besides': [['test/http/reservations/calls.test.ts', 'many names'], ['test/http/reservations/calls.test.ts', 'many entities']],
  'a reserved value, a session id, a reservation id': [['test/http/reservations/calls.test.ts', 'a long name'], ['test/http/reservations/calls.test.ts', 'a long session'], ['test/http/reservations/calls.test.ts', 'a huge id']],
  'a message of Envoy over gRPC': [['test/http/envoy/services.test.ts', 'a message above the limit ends its call only']],
  'head, time, connections on the admin listener': [['test/http/admin/framing.test.ts', 'a head that is too large'], ['test/http/admin/framing.test.ts', 'a head that does not arrive is cut after 5 seconds'], ['test/http/admin/framing.test.ts', 'connections beyond 256 cut the oldest']],
  draining: [['test/app/drain.test.ts', 'what is still under way after limits.drain is cut off'], ['test/http/proxy/lifecycle.test.ts', 'requests in flight are cut off when the grace period ends']],
}

test.each(Object.entries(REACHED))('%s is reached', (_row, tests) => {
  for (const [file, title] of tests) expect(readFileSync(join(root, file), 'utf8')).toContain(title)
})
