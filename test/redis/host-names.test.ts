import { expect, test } from 'vitest'
import { createHostNames } from '../../src/redis/connector.ts'

type Answered = Parameters<Parameters<typeof createHostNames>[0]>[1]

/** A system that is asked, and answers when the test says so. */
function system() {
  const asked: string[] = []
  const open = new Map<string, Answered>()
  const names = createHostNames((host, answered) => {
    asked.push(host)
    open.set(host, answered)
  })
  const answer = (host: string, address: string) =>
    open.get(host)?.({ error: null, addresses: [{ address, family: 4 }] })
  const fail = (host: string, code: string) =>
    open.get(host)?.({ error: Object.assign(new Error(`getaddrinfo ${code}`), { code }), addresses: [] })
  const dial = (host: string) =>
    new Promise<string>((resolve) =>
      names.addressesOf(host, ({ error, addresses }) =>
        resolve(error?.message ?? addresses.map(({ address }) => address).join()),
      ),
    )
  return { asked, answer, fail, dial }
}

// Bug: each redial asked anew. The questions about two names that nobody answered kept the threads that ask, and neither
// the nodes that were well nor the application could be dialled by their names.
test('a name that nobody answers for is asked about once at a time, and beside it nothing else', async () => {
  const { asked, answer, dial } = system()
  const dials = [dial('silent'), dial('silent'), dial('silent'), dial('well')]
  expect(asked).toEqual(['silent'])
  answer('silent', '10.0.0.1')
  expect(asked).toEqual(['silent', 'well'])
  answer('well', '10.0.0.2')
  expect(await Promise.all(dials)).toEqual(['10.0.0.1', '10.0.0.1', '10.0.0.1', '10.0.0.2'])
})

test('while its question waits, a node is dialled where its name led before', async () => {
  const { asked, answer, dial } = system()
  const first = dial('well')
  answer('well', '10.0.0.2')
  await first
  void dial('silent')
  void dial('well')
  expect(await dial('well')).toBe('10.0.0.2')
  expect(asked).toEqual(['well', 'silent'])
})

test('each dial asks anew, so that a name that leads elsewhere is followed', async () => {
  const { answer, dial } = system()
  const first = dial('moved')
  answer('moved', '10.0.0.1')
  expect(await first).toBe('10.0.0.1')
  const second = dial('moved')
  answer('moved', '10.0.0.9')
  expect(await second).toBe('10.0.0.9')
})

test('a resolver that fails leads to the last address, one that knows no such name to none', async () => {
  const { answer, fail, dial } = system()
  const first = dial('node')
  answer('node', '10.0.0.1')
  await first
  const failed = dial('node')
  fail('node', 'EAI_AGAIN')
  expect(await failed).toBe('10.0.0.1')
  const gone = dial('node')
  fail('node', 'ENOTFOUND')
  expect(await gone).toBe('getaddrinfo ENOTFOUND')
  const still = dial('node')
  fail('node', 'EAI_AGAIN')
  expect(await still).toBe('getaddrinfo EAI_AGAIN')
})
