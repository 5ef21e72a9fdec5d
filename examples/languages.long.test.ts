/** The examples in Go and Java, and in Python with packages: compiled, installed or generated first, which takes longer than they run. */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'
import { cached, goProgram, run } from '../test/support/fetched-programs.ts'
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

/** @returns the folder with the Python packages of that file and with what they need */
async function pythonPackages(file: string, module: string): Promise<string> {
  const requirements = join(here, 'python', file)
  const version = readFileSync(requirements, 'utf8')
    .trim()
    .replaceAll(/[^\w.]+/g, '-')
  const installed = await cached(version, `${module}/__init__.py`, async (beside) => {
    const options = ['--quiet', '--no-compile', '--disable-pip-version-check', '--target', beside]
    await run(module, requireProgram('pip'), ['install', ...options, '-r', requirements])
  })
  return dirname(dirname(installed))
}

const httpx = async () => ({
  command: [requireProgram('python'), join(here, 'python/reserve_httpx.py')],
  env: { PYTHONPATH: await pythonPackages('requirements.txt', 'httpx') },
})

const generated = async (api: string) => {
  const packages = await pythonPackages('requirements-generated.txt', 'openapi_python_client')
  const generator = [
    ...['-m', 'openapi_python_client', 'generate', '--url', `${api}/openapi.json`],
    ...['--meta', 'none', '--output-path', join(built, 'fencepost_api')],
  ]
  await run('a client', requireProgram('python'), generator, { PYTHONPATH: packages })
  return {
    command: [requireProgram('python'), join(here, 'python/reserve_generated.py')],
    env: { PYTHONPATH: [packages, built].join(delimiter) },
  }
}

setLanguageStage()
reservesOnce('python with httpx', httpx)
reservesOnce('python with a generated client', generated)
reservesOnce('go', go('reserve'))
sendsUntilAnswered('go', go('send'))
// Bug: without FENCEPOST_URL, which nothing mentions, it ended with `unsupported protocol scheme ""`.
runsAsInTheGuide('go', 'pay_once.go', async (file) => {
  const program = join(built, 'pay_once')
  await run('pay_once', await goProgram(), ['build', '-o', program, file], {}, built)
  return { command: [program] }
})
reservesOnce('java', java('Reserve'))
sendsUntilAnswered('java', java('Send'))

for (const [name, program] of [
  ['go', go('send')],
  ['java', java('Send')],
] as const) {
  sendsAgain(name, program, 'half of what it should be', halfAnAnswer)
  // Bug: Java's gave up with a stack trace.
  sendsAgain(name, program, 'a date to come back at', laterByADate)
  // Bug: Java's waited for ever, because the time limit of its request ends with the head of the answer.
  sendsAgain(name, program, 'a half and then nothing', (_, response) => {
    response.writeHead(200, { 'content-length': 100 }).write('{"status":')
  })
}
