/** The examples in Go and Java, and in Python with httpx: compiled or installed first, which takes longer than they run. */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { cached, goProgram, run } from '../test/support/fetched-programs.ts'
import { requireProgram } from '../test/support/programs.ts'
import { reservesOnce, sendsUntilAnswered, setLanguageStage } from './support/languages.ts'

const here = import.meta.dirname
let built: string
beforeAll(async () => {
  built = await mkdtemp(join(tmpdir(), 'fencepost-built-'))
})
afterAll(() => rm(built, { recursive: true, force: true }))

const go = (name: string) => async () => {
  const program = join(built, name)
  await run(name, await goProgram(), ['build', '-o', program, `./${name}`], {}, join(here, 'go'))
  return { command: [program] }
}

const java = (name: string) => async () => {
  const compiler = requireProgram('jdk')
  await run(name, compiler, ['-Xlint:all', '-Werror', '-d', built, join(here, 'java', `${name}.java`)])
  return { command: [join(dirname(compiler), 'java'), '-cp', built, name] }
}

const httpx = async () => {
  const requirements = join(here, 'python/requirements.txt')
  const version = readFileSync(requirements, 'utf8')
    .trim()
    .replaceAll(/[^\w.]+/g, '-')
  const module = await cached(version, 'httpx/__init__.py', async (beside) => {
    const options = ['--quiet', '--disable-pip-version-check', '--target', beside, '-r', requirements]
    await run('httpx', requireProgram('pip'), ['install', ...options])
  })
  return {
    command: [requireProgram('python'), join(here, 'python/reserve_httpx.py')],
    env: { PYTHONPATH: dirname(dirname(module)) },
  }
}

setLanguageStage()
reservesOnce('python with httpx', httpx)
reservesOnce('go', go('reserve'))
sendsUntilAnswered('go', go('send'))
reservesOnce('java', java('Reserve'))
sendsUntilAnswered('java', java('Send'))
