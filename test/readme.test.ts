/** Runs the quickstarts of README.md as they stand, with free ports in place of those that the page names. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { freePort } from './support/free-port.ts'
import { startPostgres } from './support/postgres-server.ts'
import { TestProcess } from './support/processes.ts'
import { requireProgram } from './support/programs.ts'

/** Three processes start one after the other, on a machine that may run other tests. */
const PATIENCE = { withinMs: 60_000 }
const LIMIT = { timeout: 240_000 }

const page = readFileSync(join(import.meta.dirname, '../README.md'), 'utf8')

/** The blocks of shell of the section whose heading begins so. */
function blocksOf(heading: string): readonly string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(heading)) ?? ''
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block = '']) => block.trim())
}

/** What the page calls 3000, 8080 and 8081, and an admin listener that meets no other test's. */
async function onFreePorts() {
  requireProgram('curl')
  const [application, proxy, api] = [await freePort(), await freePort(), await freePort()]
  const env = {
    FENCEPOST_PROXY_LISTEN: `127.0.0.1:${proxy}`,
    FENCEPOST_API_LISTEN: `127.0.0.1:${api}`,
    FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
    FENCEPOST_DRAIN_TIMEOUT: '1s',
  }
  const moved = (block: string) =>
    block
      .replaceAll(/\b3000\b/g, String(application))
      .replaceAll(/\b8080\b/g, String(proxy))
      .replaceAll(/\b8081\b/g, String(api))
      // The packages are installed already: the tests run from them.
      .replaceAll('node scripts/run.mjs', `${process.execPath}`)
  return { application, proxy, api, shell: (block: string) => shell(moved(block), env) }
}

function shell(script: string, env: Readonly<Record<string, string>>): TestProcess {
  return new TestProcess('bash', ['-c', script], { name: script.slice(0, 60), env })
}

test('the proxy: the second copy of a payment is answered from the record', LIMIT, async () => {
  const [application = '', sidecar = '', requests = ''] = blocksOf('Quickstart: put the proxy')
  const ports = await onFreePorts()
  await using app = ports.shell(application)
  await app.http(`http://127.0.0.1:${ports.application}/`, 201, PATIENCE)
  await using serve = ports.shell(sidecar)
  await serve.http(`http://127.0.0.1:${ports.proxy}/`, 201, PATIENCE)
  await using curl = ports.shell(requests)
  expect(await curl.exited).toEqual({ code: 0, signal: null })
  const said = [...curl.output.matchAll(/^idempotency-status: (\w+)|^(charge \d+)$/gim)]
  const charge = said[1]?.[2]
  expect(charge).toMatch(/^charge \d+$/)
  // The requests that waited for both to listen were charged, too, so the number is not 1 here.
  expect(said.map(([, status, body]) => status ?? body)).toEqual(['created', charge, 'replayed', charge])
})

test('localhost: the second worker gets DUPLICATE, with the result', LIMIT, async () => {
  const [sidecar = '', work = '', duplicate = ''] = blocksOf('Quickstart: reserve')
  const ports = await onFreePorts()
  await using serve = ports.shell(sidecar)
  await serve.http(`http://127.0.0.1:${ports.api}/openapi.json`, 200, PATIENCE)
  await using worker = ports.shell(work)
  expect(await worker.exited).toEqual({ code: 0, signal: null })
  expect(worker.output).toContain('"status":"COMPLETED"')
  await using other = ports.shell(duplicate)
  expect(await other.exited).toEqual({ code: 0, signal: null })
  expect(other.output).toMatch(/"reservation_status":"DUPLICATE".*"result":\{"paid":1200\}/)
})

test('sagas: an order is placed and handled once', LIMIT, async () => {
  const [command = ''] = blocksOf('Quickstart: sagas')
  await using database = await startPostgres()
  const { shell: run } = await onFreePorts()
  const script = command.replace(/postgres:\/\/\S+/, database.url)
  await using first = run(script)
  expect(await first.exited).toEqual({ code: 0, signal: null })
  expect(first.output).toMatch(/placed now:[\s\S]*invoice for: order-42/)
  await using second = run(script)
  expect(await second.exited).toEqual({ code: 0, signal: null })
  expect(second.output).toMatch(/placed before:/)
  expect(second.output).not.toMatch(/invoice for/)
})
