/** What holds for every command, before it begins. */
import { expect, test } from 'vitest'
import { EXIT } from '../../src/cli/command.ts'
import { program } from '../../src/cli/program.ts'
import { bufferedIo } from '../support/buffered-io.ts'

// Bug: under Node.js 20 `serve` warned of routes, opened its nodes, and ended with a TypeError without a message.
test.each([
  ['20.20.2', EXIT.configuration],
  ['22.9.0', EXIT.configuration],
  ['22.19.0', EXIT.ok],
  ['22.100.0', EXIT.ok],
  ['26.10.0', EXIT.ok],
] as const)('under Node.js %s a program that needs 22.19.0 ends with %i', async (nodeVersion, exitCode) => {
  const { io, stderr } = bufferedIo({})
  expect(await program(['--version'], { ...io, nodeVersion, oldestNode: '22.19.0' })).toBe(exitCode)
  expect(stderr()).toBe(
    exitCode === EXIT.ok
      ? ''
      : `fencepost ${io.version} needs Node.js 22.19.0 or newer, and this is ${nodeVersion}: install that, or run the container image, which has its own\n`,
  )
})
