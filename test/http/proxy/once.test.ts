/** The scenarios of draft-ietf-httpapi-idempotency-key-header-07, sections 2.6 and 2.7, one test each. */

import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { route, startProxy } from '../../support/proxy.ts'

test('a request sent twice is executed once, and answered twice alike', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  const first = await proxy.post('k-1')
  const second = await proxy.post('k-1')

  expect([first.status, second.status]).toEqual([201, 201])
  expect(first.headers.get('idempotency-status')).toBe('created')
  expect(second.headers.get('idempotency-status')).toBe('replayed')
  expect(await second.text()).toBe(await first.text())
  expect(application.seen.length).toBe(1)
})

test('a duplicate of what ended in an error of the client gets that error', async () => {
  await using application = await startApplication((_request, response, execution) => {
    response.writeHead(422, { 'content-type': 'application/json' }).end(`{"execution":${execution}}`)
  })
  await using proxy = await startProxy(application.origin)
  const answers = [await proxy.post('k-1'), await proxy.post('k-1')]

  expect(answers.map(({ status }) => status)).toEqual([422, 422])
  expect(await Promise.all(answers.map((answer) => answer.text()))).toEqual(Array(2).fill('{"execution":1}'))
  expect(application.seen.length).toBe(1)
})

test('a duplicate that comes while the first is under way is refused: 409, as a problem document', async () => {
  const arrived = Promise.withResolvers<void>()
  const goOn = Promise.withResolvers<void>()
  await using application = await startApplication(async (_request, response) => {
    arrived.resolve()
    await goOn.promise
    response.writeHead(201).end()
  })
  await using proxy = await startProxy(application.origin)
  const first = proxy.post('k-1')
  await arrived.promise
  const second = await proxy.post('k-1')
  goOn.resolve()

  expect(second.status).toBe(409)
  expect(second.headers.get('content-type')).toContain('application/problem+json')
  expect((await first).status).toBe(201)
  expect(application.seen.length).toBe(1)
})

test('a key that comes again with another payload is refused: 422, as a problem document', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  await proxy.post('k-1', '{"amount":1}')
  const second = await proxy.post('k-1', '{"amount":2}')

  expect(second.status).toBe(422)
  expect(second.headers.get('content-type')).toContain('application/problem+json')
  expect(application.seen.length).toBe(1)
})

test('where a key is required a request without one is refused: 400, as a problem document', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin, { routes: [route({ required: true })] })
  const answer = await proxy.post(undefined)

  expect(answer.status).toBe(400)
  expect(answer.headers.get('content-type')).toContain('application/problem+json')
  expect(application.seen.length).toBe(0)
})

test('two keys are two requests, whatever else is equal', async () => {
  await using application = await startApplication()
  await using proxy = await startProxy(application.origin)
  expect([await proxy.post('k-1'), await proxy.post('k-2')].map(({ status }) => status)).toEqual([201, 201])
  expect(application.seen.length).toBe(2)
})
