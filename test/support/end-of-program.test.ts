/** endInTime() at the end of small programs. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { TestProcess } from './processes.ts'

const FILE = join(import.meta.dirname, 'end-of-program.ts')

async function running(lines: string) {
  const source = `import { endInTime } from ${JSON.stringify(FILE)}\n${lines}`
  await using child = new TestProcess(process.execPath, ['--input-type=module', '--eval', source])
  return { ...(await child.exited), output: child.output }
}

test.each([0, 1, 2])('a program with nothing open ends with its own code, %i', async (code) => {
  const { code: ended } = await running(`process.exitCode = ${code}; endInTime()`)
  expect(ended).toBe(code)
})

test.each([
  [0, 3],
  [1, 1],
])('a program of code %i that left a server open names it and ends with %i', async (code, expected) => {
  const { code: ended, output } = await running(
    `import { createServer } from 'node:net'
     createServer().listen(0, '127.0.0.1', () => { process.exitCode = ${code}; endInTime(1) })`,
  )
  expect(ended).toBe(expected)
  expect(output).toMatch(/still open 1 ms after the report: \[ 'TCPServerWrap' \]/)
})
