/** An answer that states no length and does not end soon: its client gets it part by part, and its duplicates get it whole. */
import { expect, test } from 'vitest'
import { startApplication } from '../../support/application.ts'
import { eventually } from '../../support/eventually.ts'
import { hold, startProxy } from '../../support/proxy.ts'

const told = (response: Response) => `${response.status} ${response.headers.get('idempotency-status')}`

async function part(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<string | undefined> {
  const { value } = await reader.read()
  return value === undefined ? undefined : Buffer.from(value).toString()
}

// Bug: a client saw nothing of it before its end.
test.each(['application/x-ndjson', 'multipart/mixed; boundary=b', 'text/x-component', 'text/plain'])(
  'an answer of %s is passed on as it comes, and recorded whole',
  async (type) => {
    const held = hold()
    await using application = await startApplication(async (_request, response) => {
      response.writeHead(200, { 'Content-Type': type })
      response.write('one\n')
      await held.released
      response.end('two\n')
    })
    await using proxy = await startProxy(application.origin)
    const first = await proxy.post('k')
    expect(told(first)).toBe('200 unstored')
    const reader = first.body!.getReader()
    expect(await part(reader)).toBe('one\n')
    expect(told(await proxy.post('k'))).toBe('409 in-progress')
    held.release()
    expect([await part(reader), await part(reader)]).toEqual(['two\n', undefined])
    const again = await eventually('it is recorded', async () => {
      const answer = await proxy.post('k')
      return answer.status === 200 ? answer : undefined
    })
    expect([told(again), await again.text()]).toEqual(['200 replayed', 'one\ntwo\n'])
    expect(again.headers.get('content-type')).toBe(type)
    expect(application.seen.length).toBe(1)
  },
)

test('one that is longer than may be stored leaves a tombstone while it still comes', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    response.write('one')
    await held.released
    response.write('x'.repeat(300_000))
  })
  await using proxy = await startProxy(application.origin)
  const first = await proxy.post('k')
  const reader = first.body!.getReader()
  expect(await part(reader)).toBe('one')
  held.release()
  await part(reader)
  await eventually('it is recorded', async () => told(await proxy.post('k')) === '410 gone')
  await reader.cancel()
})

test('one that is cut is not recorded, and its client sees that it was cut', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    response.write('one')
    await held.released
    response.destroy()
  })
  await using proxy = await startProxy(application.origin)
  const first = await proxy.post('k')
  held.release()
  await expect(first.text()).rejects.toThrow()
  await eventually('its lease is left', () => proxy.events.some((event) => event.kind === 'lease_ended'))
  expect(told(await proxy.post('k'))).toBe('409 in-progress')
  expect(application.seen.length).toBe(1)
})

test('the client that leaves does not end it: it is recorded whole', async () => {
  const held = hold()
  await using application = await startApplication(async (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/plain' })
    response.write('one')
    await held.released
    response.end('two')
  })
  await using proxy = await startProxy(application.origin)
  await (await proxy.post('k')).body!.cancel()
  held.release()
  const again = await eventually('it is recorded', async () => {
    const answer = await proxy.post('k')
    return answer.status === 200 ? answer : undefined
  })
  expect(await again.text()).toBe('onetwo')
})
