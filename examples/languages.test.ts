/** The examples in Python, as they stand, against a real sidecar. Those that are compiled are in languages.long.test.ts. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type Respond, startApplication } from '../test/support/application.ts'
import { TestProcess } from '../test/support/processes.ts'
import { requireProgram } from '../test/support/programs.ts'
import {
  halfAnAnswer,
  laterByADate,
  reservesOnce,
  runsAsInTheGuide,
  sendsAgain,
  sendsUntilAnswered,
  setLanguageStage,
} from './support/languages.ts'

const python = (file: string) => async () => ({
  command: [requireProgram('python'), join(import.meta.dirname, 'python', file)],
})

setLanguageStage()
reservesOnce('python', python('reserve.py'))
sendsUntilAnswered('python', python('send.py'))
runsAsInTheGuide('python', 'pay_once.py', async (file) => ({ command: [requireProgram('python'), file] }))

const HEARTBEAT = `
import sys, time
sys.path.insert(0, sys.argv[1])
import reserve
heartbeat = reserve.Heartbeat("/v1/reservations/r1_x", {"fencing_token": 1}, 300, time.monotonic())
heartbeat.start()
print(heartbeat.lost.wait(20))
`

// Bug: its thread ended with an error, and the work went on under a lease that nobody extended.
test.each<[what: string, respond: Respond]>([
  ['a page', (_, response) => void response.writeHead(502).end('<html>Bad Gateway</html>')],
  ['half an answer', halfAnAnswer],
])('python: a heartbeat that gets %s says that its lease is lost', async (_what, respond) => {
  await using server = await startApplication(respond)
  const args = ['-c', HEARTBEAT, join(import.meta.dirname, 'python')]
  await using child = new TestProcess(requireProgram('python'), args, {
    env: { FENCEPOST_URL: server.origin },
  })
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  expect(child.output).toBe('True\n')
  expect(server.seen.length).toBeGreaterThan(0)
})

// Bug: it gave up with a stack trace, and the payment may have been made.
sendsAgain('python', python('send.py'), 'half of what it should be', halfAnAnswer)
sendsAgain('python', python('send.py'), 'a date to come back at', laterByADate)
