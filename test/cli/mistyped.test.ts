// A mistyped command ends in one sentence and the exit code for wrong usage, not in a stack trace.
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { program } from '../../src/cli/program.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { freePort } from '../support/free-port.ts'
import { listening } from '../support/listening.ts'

async function run(...args: string[]) {
  const { io, stdout, stderr } = bufferedIo({})
  return { code: await program(args, io), stdout: stdout(), lines: stderr().trim().split('\n') }
}

test.each<[number, string[]]>([
  [64, ['selftest', '--url', '127.0.0.1:8081']],
  [64, ['selftest', '--url', 'localhost:8081']],
  [64, ['selftest', '--url', 'http://127.0.0.1:1', '--admin', 'localhost']],
  [78, ['selftest', '--url', 'http://127.0.0.1:1', '--token-file', '/no/such/file']],
  [64, ['probe', '--once', '--api', 'localhost:8081']],
  // Bug: a screen of a cluster without nodes, and exit code 1 as for a sidecar that is down.
  [78, ['probe', '--once', '--token-file', '/no/such/file']],
  [78, ['probe', '--once', '--prometheus', '9100']],
  [78, ['probe', '--once', '--prometheus', '127.0.0.1:many']],
  [78, ['probe', '--once', '--prometheus', '127.0.0.1:70000']],
])('%i: %j', async (code, args) => {
  expect(await run(...args)).toMatchObject({
    code,
    stdout: '',
    lines: [expect.stringContaining(args.at(-1)!)],
  })
})

// Bug: they were answered with a JSON Schema of the listener.
test.each([
  [
    ['records', 'forget', '--path', '/p', '--key', 'k', '--even-though', 'sometimes'],
    'live, completed or damaged',
  ],
  [['records', 'show', '--path', 'payments', '--key', 'k'], 'a path such as /payments'],
])('a value that is not accepted is said with what is: %j', async (args, accepted) => {
  const { code, stdout, lines } = await run(...args)
  expect([code, stdout]).toEqual([64, ''])
  expect(lines.join()).toContain(accepted)
})

// Bug: the error showed the password, which ended in the log of whatever had called the command.
test.each([
  [['selftest', '--url', 'http://bob:hunter2@127.0.0.1:1']],
  [['selftest', '--url', 'bob:hunter2@127.0.0.1:1']],
  [['records', 'show', '0123456789abcdef', '--token-file', '/t', '--operator', 'http://hunter2@127.0.0.1:1']],
])('a password in an address is not accepted, and not shown: %j', async (args) => {
  const { code, stdout, lines } = await run(...args)
  expect([code, stdout, lines]).toEqual([64, '', [expect.stringMatching(/…@127\.0\.0\.1:1 is not accepted/)]])
  expect(lines.join()).not.toMatch(/hunt|bob/)
})

test('a port that is taken', async () => {
  const server = createServer()
  const at = await listening(server)
  const taken = `127.0.0.1:${at.port}`
  const answer = await run('probe', '--once', '--prometheus', taken)
  server.close()
  expect(answer).toMatchObject({ code: 78, lines: [expect.stringContaining('EADDRINUSE')] })
})

// Bug: "fetch failed", which says neither that nobody listens nor that a name is unknown.
test('a probe says why a sidecar does not answer', async () => {
  const address = `http://127.0.0.1:${await freePort()}`
  const probe = await run('probe', '--once', '--api', address)
  expect([probe.code, probe.stdout]).toEqual([1, expect.stringContaining('ECONNREFUSED')])
})
