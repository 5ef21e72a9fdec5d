/**
 * `npm run campaign -- traefik`: the tests of the gateways with Traefik among them. Not in the suite where Traefik is not built yet,
 * because that takes minutes; once it is, the suite has it, too.
 *
 * Other arguments go to Vitest.
 */
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { traefikProgram } from '../../support/traefik.ts'

await traefikProgram()
const root = join(import.meta.dirname, '../../..')
const files = ['gateways', 'routes'].map((name) => `test/http/gateway/${name}.test.ts`)
const child = spawn(
  process.execPath,
  ['scripts/run.mjs', 'scripts/test.ts', ...files, ...process.argv.slice(2)],
  {
    cwd: root,
    stdio: 'inherit',
  },
)
child.once('close', (code) => {
  process.exitCode = code ?? 1
})
