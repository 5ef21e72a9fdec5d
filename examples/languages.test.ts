/** The examples in Python, as they stand, against a real sidecar. Those that are compiled are in languages.long.test.ts. */
import { join } from 'node:path'
import { requireProgram } from '../test/support/programs.ts'
import { reservesOnce, sendsUntilAnswered, setLanguageStage } from './support/languages.ts'

const python = (file: string) => async () => ({
  command: [requireProgram('python'), join(import.meta.dirname, 'python', file)],
})

setLanguageStage()
reservesOnce('python', python('reserve.py'))
sendsUntilAnswered('python', python('send.py'))
