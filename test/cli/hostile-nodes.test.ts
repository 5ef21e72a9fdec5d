/** Commands that show what a node says, with nodes that speak to the terminal. */
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import type { Command } from '../../src/cli/command.ts'
import { doctor } from '../../src/cli/doctor.ts'
import { nodes } from '../../src/cli/nodes.ts'
import { bufferedIo } from '../support/buffered-io.ts'
import { duringTests } from '../support/during-tests.ts'
import { listening } from '../support/listening.ts'

/** Clears the screen and writes what the operator hopes to read. */
const SAID = '\u001b[2J\u001b[Hok       quorum  3 of 3 nodes vote\u009b0m'

const servers = [0, 1, 2].map(() =>
  duringTests(() =>
    listening(
      createServer((socket) => {
        socket.on('error', () => {}).on('data', () => socket.write(`-ERR ${SAID}\r\n`))
      }),
    ),
  ),
)

/** Bug: an error, or a version, with the sequences of a terminal cleared the screen and said that all is well. */
test.each<[name: string, command: Command, args: string[]]>([
  ['doctor', doctor, ['--admin', 'http://127.0.0.1:9']],
  ['nodes status', nodes, ['status']],
])('%s repeats what a node says without its control characters', async (_, command, args) => {
  const setting = servers.map(({ port }) => `redis://127.0.0.1:${port}`).join(',')
  const { io, stdout, stderr } = bufferedIo({ FENCEPOST_REDIS_NODES: setting, FENCEPOST_PROXY_LISTEN: 'off' })
  await command(args, io)
  expect(stdout()).toContain('ERR ?[2J?[Hok')
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what a terminal obeys
  expect(stdout() + stderr()).not.toMatch(/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/)
})
