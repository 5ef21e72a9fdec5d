/**
 * A real nginx between the proxy and the application, as many pods have it in front of PHP or Python: what it answers in the application's
 * place says nothing of what the application did.
 */
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { ProtectedRoute } from '../../../src/core/routes/route.ts'
import { startApplication, type TestApplication } from '../../support/application.ts'
import { stackOfTests } from '../../support/during-tests.ts'
import { eventually } from '../../support/eventually.ts'
import { startNginx } from '../../support/nginx.ts'
import { hold, route, startProxy } from '../../support/proxy.ts'

const stack = stackOfTests()
let application: TestApplication
let nginx: string

/** It waits for less than an application may take, and says so as a page of maintenance does it. */
const IMPATIENT = `
  proxy_read_timeout 300ms; proxy_next_upstream off;
  error_page 504 /later; location = /later { internal; add_header Retry-After 30 always; return 504; }`

beforeAll(async () => {
  application = stack.use(await startApplication())
  nginx = stack.use(await startNginx(application.origin, IMPATIENT)).origin
})

let seenBefore = 0
beforeEach(() => {
  seenBefore = application.seen.length
})
const executions = () => application.seen.length - seenBefore

/** It goes on, as PHP does after nginx has given up; nobody waits for what it answers. */
const stillAtWork: TestApplication['respond'] = () => {}
const breaksOff: TestApplication['respond'] = (_request, response) => void response.socket?.destroy()

/** Bug: the key was released as for any other 5xx, so the client's retry was executed beside the first request. */
test.each([
  ['gives up waiting for the application', stillAtWork, 504],
  ['loses the application', breaksOff, 502],
])('where nginx %s, the claim stays, and a retry is refused', async (_what, respond, status) => {
  application.respond = respond
  await using proxy = await startProxy(nginx)
  const first = await proxy.post('k')
  expect([first.status, first.headers.get('idempotency-status')]).toEqual([status, 'indeterminate'])
  // nginx's own answer.
  expect(first.headers.get('server')).toContain('nginx')
  const retry = await proxy.post('k')
  expect([retry.status, retry.headers.get('idempotency-status')]).toEqual([409, 'in-progress'])
  expect(executions()).toBe(1)
})

test('the entity that the application may still work on stays locked', async () => {
  application.respond = stillAtWork
  const byAccount = route({ entities: [{ in: 'header', name: 'x-account' }], entityWaitMs: 0 })
  await using proxy = await startProxy(nginx, { routes: [byAccount] })
  expect((await proxy.post('first', '{}', { 'x-account': '42' })).status).toBe(504)
  const other = await proxy.post('other', '{}', { 'x-account': '42' })
  expect(await other.json()).toMatchObject({ code: 'entity-busy' })
  expect(executions()).toBe(1)
})

/** Bug: its 409 was recorded as the outcome, so for 24 hours nobody learnt that the payment had been made. */
test('an application that knows the key of the work that goes on (409) has settled nothing by that', async () => {
  const work = hold()
  let isDone = false
  application.respond = async (_request, response, execution) => {
    if (execution > seenBefore + 1 && !isDone) return void response.writeHead(409).end('in progress')
    await work.released
    isDone = true
    response.writeHead(201).end('paid')
  }
  await using proxy = await startProxy(nginx, { routes: [route({ leaseMs: 1_000 })] })
  const told = async () => {
    const answer = await proxy.post('k')
    return `${answer.status} ${answer.headers.get('idempotency-status')}`
  }
  expect(await told()).toBe('504 indeterminate')
  expect(await told()).toBe('409 in-progress')
  await eventually('the lease has ended', async () => (await told()) === '409 released')
  expect(await told()).toBe('409 released')
  work.release()
  await eventually('it is done', () => isDone)
  expect([await told(), await told()]).toEqual(['201 created', '201 replayed'])
  expect(application.seen.at(-1)?.values('fencepost-attempt')).toEqual(['2'])
})

test.each<[what: string, store: ProtectedRoute['store'], status: string]>([
  ['a route may release it', { 504: 'release' }, 'released'],
  // Bug: it did so by its class, which is meant for answers that say something.
  ['a route that releases a class does not mean it', { '5xx': 'release' }, 'indeterminate'],
  ['a route may store it', { '5xx': 'store' }, 'created'],
])('%s', async (_what, store, status) => {
  application.respond = stillAtWork
  await using proxy = await startProxy(nginx, { routes: [route({ store })] })
  const answer = await proxy.post('k')
  expect([answer.status, answer.headers.get('idempotency-status')]).toEqual([504, status])
})
