/** The promises of an example in any language: a program that reserves, and one that sends through the proxy. */
import { readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeAll, expect, test } from 'vitest'
import { type Respond, startApplication } from '../../test/support/application.ts'
import {
  type CountingApplication,
  startCountingApplication,
} from '../../test/support/counting-application.ts'
import { startLosingRelay } from '../../test/support/losing-relay.ts'
import { TestProcess } from '../../test/support/processes.ts'
import { PATIENT, type Sidecar, startSidecar } from '../../test/support/sidecar.ts'

/** The command of a program, before its own arguments. */
export type Program = { readonly command: readonly string[]; readonly env?: Readonly<Record<string, string>> }

const GUIDE = new URL('../../docs/guide/reservations.md', import.meta.url)

let sidecar: Sidecar
let application: CountingApplication
let folder: string

/** Of a test that may have to install or compile its program first. */
const LIMIT = { timeout: 240_000 }

/** Call it once in a file of tests, outside of them. */
export function setLanguageStage(): void {
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'fencepost-examples-'))
    application = await startCountingApplication()
    sidecar = await startSidecar({
      FENCEPOST_REDIS_NODES: 'embedded',
      FENCEPOST_UPSTREAM: application.url,
      ...PATIENT,
    })
    return async () => {
      await sidecar[Symbol.asyncDispose]()
      await application[Symbol.asyncDispose]()
      await rm(folder, { recursive: true, force: true })
    }
  })
}

/** @param program gets the address of the reservation API */
export function reservesOnce(name: string, program: (api: string) => Promise<Program>): void {
  test(`${name}: the first run renews and completes, the second gets its result`, LIMIT, async () => {
    const order = `order-${name.replaceAll(/\W/g, '')}`
    const { command, env = {} } = await program(sidecar.api)
    const run = () =>
      output([...command, order], {
        ...env,
        FENCEPOST_URL: sidecar.api,
        DATABASE: join(folder, `${order}.sqlite`),
        LEDGER: join(folder, `${order}.txt`),
      })
    const first = await run()
    expect(first).toMatch(/^created ./)
    expect(await run()).toBe(first.replace('created', 'replayed'))
    // Its work lasts until an extension has succeeded: without one it fails.
    const { state } = (await (
      await fetch(`${sidecar.api}/v1/reservations?value=payment:${order}`)
    ).json()) as { readonly state: string }
    expect(state).toBe('COMPLETED')
  })
}

export function sendsUntilAnswered(name: string, program: () => Promise<Program>): void {
  test(`${name}: a payment whose answer was lost is sent again, and charged once`, LIMIT, async () => {
    const order = `sent-${name.replaceAll(/\W/g, '')}`
    const { command, env = {} } = await program()
    await using relay = await startLosingRelay(sidecar.proxy)
    relay.loseNextAnswer()
    const said = await output([...command, order], { ...env, FENCEPOST_PROXY: relay.origin })
    expect(relay.lost).toBe(1)
    expect(said).toMatch(/^replayed ./)
    expect(application.of(`payment-${order}`)).toHaveLength(1)
  })
}

/** @param program gets the file with the program of the guide's page, of which only the sidecar's address is another */
export function runsAsInTheGuide(
  language: string,
  name: string,
  program: (file: string) => Promise<Program>,
): void {
  test(
    `${language}: the program of the guide needs nothing but a sidecar, and says the same twice`,
    LIMIT,
    async () => {
      const blocks = readFileSync(GUIDE, 'utf8').split('\n```')
      const code = blocks.find((block) => block.startsWith(`${language}\n`))?.slice(language.length) ?? ''
      const file = join(folder, name)
      await writeFile(file, code.replace('http://127.0.0.1:8081', sidecar.api))
      const { command, env = {} } = await program(file)
      const [first, second, ...more] = (await output(command, env)).split('\n')
      expect([second, more]).toEqual([first, []])
      expect(JSON.parse(first ?? '')).toMatchObject({ attempt: 1 })
    },
  )
}

/** The first answer as `respond` gives it, the second whole: a program that gives up after the first fails. */
export function sendsAgain(
  name: string,
  program: () => Promise<Program>,
  what: string,
  respond: Respond,
): void {
  test(`${name}: a payment that is answered with ${what} is sent again`, LIMIT, async () => {
    await using server = await startApplication((request, response, execution) => {
      if (execution === 1) return respond(request, response, execution)
      response.writeHead(201, { 'Idempotency-Status': 'replayed' }).end('charge 1')
    })
    const { command, env = {} } = await program()
    const said = await output([...command, 'order-again'], { ...env, FENCEPOST_PROXY: server.origin })
    expect(said).toBe('replayed charge 1')
    expect(server.seen.map((request) => request.values('idempotency-key'))).toEqual([
      ['payment-order-again'],
      ['payment-order-again'],
    ])
  })
}

export const halfAnAnswer: Respond = (_, response) => {
  response.writeHead(200, { 'content-length': 100 }).write('{"status":')
  response.socket?.end()
}

/** RFC 9110, section 10.2.3: a number of seconds or a date. */
export const laterByADate: Respond = (_, response) => {
  response.writeHead(503, { 'Retry-After': new Date().toUTCString() }).end('later')
}

async function output(
  [command = '', ...args]: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<string> {
  await using child = new TestProcess(command, args, { env, cwd: folder })
  expect(await child.exited, child.output).toEqual({ code: 0, signal: null })
  return child.output.trim()
}
