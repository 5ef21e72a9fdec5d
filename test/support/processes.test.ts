import { existsSync } from 'node:fs'
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { eventually } from './eventually.ts'
import { listening } from './listening.ts'
import { TestProcess } from './processes.ts'

const script = (source: string) => new TestProcess(process.execPath, ['-e', source], { name: 'a script' })

test('a line is found whether it came before or after the call', async () => {
  await using child = script(`console.log('listening on 42'); setInterval(() => {}, 1000)`)
  expect((await child.line(/listening on (\d+)/))[1]).toBe('42')
  expect((await child.line(/listening on (\d+)/))[1]).toBe('42')
})

test('a process that ends before the line is reported at once, with its exit code and its output', async () => {
  await using child = script(`console.error('no such setting'); process.exit(78)`)
  await expect(child.line(/listening/)).rejects.toThrow(
    /a script \(exit 78\): ended before there was a line like.*no such setting/s,
  )
})

test('a line that does not come in time is reported with the output instead', async () => {
  await using child = script(`console.log('still starting'); setInterval(() => {}, 1000)`)
  await child.line(/still/)
  await expect(child.line(/listening/, { withinMs: 50 })).rejects.toThrow(/waited 50 ms for.*still starting/s)
})

test('a program that does not exist is reported by its name', async () => {
  await using child = new TestProcess('no-such-program-here', [])
  await expect(child.line(/x/)).rejects.toThrow(/ENOENT/)
})

test('a process that ignores SIGTERM is killed after its time, and fails the test', async () => {
  const child = script(`process.on('SIGTERM', () => {}); console.log('up'); setInterval(() => {}, 1000)`)
  await child.line(/up/)
  await expect(child.end({ withinMs: 100 })).rejects.toThrow(/did not end within 100 ms of SIGTERM/)
  expect(await child.exited).toEqual({ code: null, signal: 'SIGKILL' })
})

// Bug: after a test that had timed out, its servers and their clients went on for hours, beside the tests that followed.
test('a test process that is ended takes what it started with it', async () => {
  const module = JSON.stringify(import.meta.resolve('./processes.ts'))
  await using parent = script(`import(${module}).then(({ TestProcess }) => {
    const child = new TestProcess(process.execPath, ['-e', 'setInterval(() => {}, 1000)'])
    console.log('started ' + child.pid)
  })`)
  const [, pid] = await parent.line(/started (\d+)/)
  expect(await parent.end()).toEqual({ code: 143, signal: null })
  await eventually('its process to have ended', () => !existsSync(`/proc/${pid}`))
})

test('a wait for an address ends when it answers with the wanted status', async () => {
  let asked = 0
  const server = createServer((_request, response) => {
    asked += 1
    response.writeHead(asked < 3 ? 503 : 200).end()
  })
  const at = await listening(server)
  await using child = script('setInterval(() => {}, 1000)')
  await child.http(`http://127.0.0.1:${at.port}/readyz`)
  // Once more where the third answer was too late for the poll.
  expect(asked).toBeGreaterThanOrEqual(3)
  server.closeAllConnections()
  server.close()
})
