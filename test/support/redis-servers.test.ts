import { execFile } from 'node:child_process'
import { access } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { eventually } from './eventually.ts'
import { type RedisServers, startRedisServers } from './redis-servers.ts'

for (const transport of ['tcp', 'unix'] as const) {
  test(`three servers over ${transport} are independent`, async () => {
    await using servers = await startRedisServers(3, { transport })
    expect(await command(servers, 0, 'SET greeting hello')).toBe('+OK')
    expect(await command(servers, 0, 'EXISTS greeting')).toBe(':1')
    expect(await command(servers, 1, 'EXISTS greeting')).toBe(':0')
    expect(new Set(servers.urls).size).toBe(3)
  })
}

test.each([
  { appendOnly: false, emptied: false, kept: ':0' },
  { appendOnly: true, emptied: false, kept: ':1' },
  { appendOnly: true, emptied: true, kept: ':0' },
])('a killed server restarts on its address: $appendOnly $emptied', async ({ appendOnly, emptied, kept }) => {
  await using servers = await startRedisServers(1, { appendOnly })
  const [before] = servers.urls
  await command(servers, 0, 'SET greeting hello')
  await servers.kill(0)
  await expect(command(servers, 0, 'PING')).rejects.toThrow('ECONNREFUSED')
  await servers.start(0, { emptied })
  expect(servers.urls).toEqual([before])
  expect(await command(servers, 0, 'EXISTS greeting')).toBe(kept)
})

test('a paused server answers after it is resumed', async () => {
  await using servers = await startRedisServers(1)
  servers.pause(0)
  let answered = false
  const answer = command(servers, 0, 'PING').then((text) => {
    answered = true
    return text
  })
  // The kernel accepts the connection; the state of the process shows the pause.
  await eventually('the server to be stopped', () =>
    stateOf(servers.at(0).process.pid).then((s) => s === 'T'),
  )
  expect(answered).toBe(false)
  servers.resume(0)
  expect(await answer).toBe('+PONG')
})

test('a server gets its memory limit and further lines of configuration', async () => {
  await using servers = await startRedisServers(2, {
    maxMemory: '2mb',
    config: (index) => [`databases ${index + 1}`],
  })
  expect(await command(servers, 0, 'CONFIG GET maxmemory')).toContain('2097152')
  expect(await command(servers, 1, 'CONFIG GET databases')).toContain('\r\n2')
})

test('a server that refuses its configuration fails the start with its own words, and none is left', async () => {
  await expect(startRedisServers(2, { config: ['no-such-setting 1'] })).rejects.toThrow(/no-such-setting/)
})

test('at the end the processes are gone, paused ones too, and so are their folders', async () => {
  const servers = await startRedisServers(2)
  const pids = [0, 1].map((index) => servers.at(index).process.pid)
  servers.pause(1)
  await servers[Symbol.asyncDispose]()
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  await expect(access(servers.at(0).folder)).rejects.toThrow('ENOENT')
})

/** The first answer to one inline command. */
function command(servers: RedisServers, index: number, line: string): Promise<string> {
  const { address } = servers.at(index)
  return new Promise((resolve, reject) => {
    const socket = createConnection(
      address.kind === 'unix' ? { path: address.path } : { host: address.host, port: address.port },
    )
    let answer = ''
    socket.on('data', (chunk) => {
      answer += chunk.toString()
    })
    socket.once('error', reject)
    socket.once('close', () => resolve(answer.replace(/\r\n\+OK\r\n$/, '')))
    socket.write(`${line}\r\nQUIT\r\n`)
  })
}

/** The state letter of ps(1): T is stopped by a signal. */
async function stateOf(pid: number): Promise<string | undefined> {
  const { stdout } = await promisify(execFile)('ps', ['-o', 'state=', '-p', String(pid)])
  return stdout.trim()[0]
}
