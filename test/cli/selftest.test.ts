/** `fencepost selftest`, as an operator or `helm test` runs it. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { makeAuthority } from '../support/certificates.ts'
import { type Exit, startFencepost } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT as PATIENT_SIDECAR, startSidecar } from '../support/sidecar.ts'

async function selftest(
  args: readonly string[],
  env: Record<string, string>,
): Promise<Exit & { output: string }> {
  await using command = startFencepost(['selftest', ...args], { env })
  return { ...(await command.exited), output: command.output }
}

/** A busy machine must not look like a lost quorum. */
const PATIENT = { ...PATIENT_SIDECAR, FENCEPOST_REDIS_CONNECT_TIMEOUT: '2s' }

test('all nodes there: every step is printed, exit 0; one away: exit 69, unless a majority will do', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const env = {
    ...PATIENT,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_UPSTREAM: 'http://127.0.0.1:9',
  }
  const well = await selftest([], env)
  expect(well.code, well.output).toBe(0)
  expect(well.output.split('\n').map((line) => line.replace(/\d{16}/, 'TOKEN'))).toEqual([
    'ok    acquired, fencing token TOKEN',
    'ok    a duplicate is refused: CONFLICT',
    'ok    released',
    'ok    acquired again under a larger token, TOKEN',
    'ok    3 of 3 nodes vote',
    '',
  ])
  await servers.stop(1)
  const short = await selftest([], env)
  expect([short.code, short.output]).toEqual([
    69,
    expect.stringContaining(`FAIL  2 of 3 nodes vote; ${servers.names[1]} is down`),
  ])
  expect((await selftest(['--majority'], env)).code).toBe(0)
  await servers.stop(2)
  const lost = await selftest(['--majority'], env)
  expect([lost.code, lost.output]).toEqual([69, expect.stringMatching(/FAIL {2}expected 201 .* got 503/)])
})

test('it tests a running sidecar by its address', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  const env = {
    ...PATIENT,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    // It names no lease of its own, which such a sidecar would have to refuse.
    FENCEPOST_RESERVATION_MAX_LEASE: '2s',
  }
  await using sidecar = await startSidecar(env)
  const there = await selftest(['--url', sidecar.api, '--admin', sidecar.admin], {})
  expect([there.code, there.output]).toEqual([0, expect.stringContaining('3 of 3 nodes vote')])
  const gone = await selftest(['--url', 'http://127.0.0.1:1'], {})
  expect([gone.code, gone.output]).toEqual([69, expect.stringContaining('no answer from http://127.0.0.1:1')])
})

test('an invalid configuration: exit 78', async () => {
  expect((await selftest([], { FENCEPOST_REDIS_NODES: 'none' })).code).toBe(78)
})

test('it takes the settings of a sidecar whose listeners speak TLS, while its token is rotated', async () => {
  await using servers = await startRedisServers(3, { founded: true })
  using authority = makeAuthority()
  const { certFile, keyFile } = authority.sign('fencepost')
  const tokenFile = join(authority.folder, 'token')
  writeFileSync(tokenFile, `new-token-${'n'.repeat(32)}\nold-token-${'o'.repeat(32)}\n`)
  const tested = await selftest([], {
    ...PATIENT,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_TLS_LISTENERS: 'api,admin',
    FENCEPOST_TLS_CERT_FILE: certFile,
    FENCEPOST_TLS_KEY_FILE: keyFile,
    FENCEPOST_API_TOKEN_FILE: tokenFile,
  })
  expect([tested.code, tested.output]).toEqual([0, expect.stringContaining('3 of 3 nodes vote')])
})

/** Every HTTP client refuses these, some with an error that quotes them. */
test.each(['\0', '\u007f', '\u20ac'])(
  'a token with a character that no header takes (%j) is never shown',
  async (odd) => {
    using authority = makeAuthority()
    const tokenFile = join(authority.folder, 'token')
    const canary = 'never-shown'
    writeFileSync(tokenFile, `${canary}${odd}${'n'.repeat(32)}\n`)
    const api = ['--token-file', tokenFile]
    for (const args of [
      ['selftest', '--url', 'http://127.0.0.1:9001', ...api],
      ['probe', '--once', '--api', 'http://127.0.0.1:9001', ...api],
    ]) {
      await using command = startFencepost(args, { env: {} })
      expect([(await command.exited).code, command.output]).toEqual([
        78,
        'the token (its file, first line) has a character that no header takes; it is not shown here\n',
      ])
    }
  },
)

test('nor does it show the token of the sidecar that it starts itself', async () => {
  using authority = makeAuthority()
  const tokenFile = join(authority.folder, 'token')
  writeFileSync(tokenFile, `never-shown\0${'n'.repeat(32)}\n`)
  const own = await selftest([], { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_API_TOKEN_FILE: tokenFile })
  expect([own.code, own.output]).toEqual([78, expect.stringContaining('a character that no header takes')])
  expect(own.output).not.toContain('never-shown')
})
