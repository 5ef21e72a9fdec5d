/**
 * Runs a program of this repository on a fresh clone: installs the npm packages of the lock file where they are
 * missing or older than the lock file, then hands over to the Node of the development dependency `node`.
 *
 * Plain JavaScript without dependencies, because it runs on whatever Node (>= 20) the machine has.
 * Usage: node scripts/run.mjs <program> [arguments…]
 */
import { spawn, spawnSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const newNode = join(root, 'node_modules', 'node', 'bin', 'node')
const installed = join(root, 'node_modules', '.package-lock.json')
const lockFile = join(root, 'package-lock.json')

if (
  !existsSync(installed) ||
  !existsSync(newNode) ||
  statSync(installed).mtimeMs < statSync(lockFile).mtimeMs
) {
  console.error('installing the packages of package-lock.json (npm ci) …')
  // engine warnings are silenced: they speak of the Node that starts us, not of the one that runs the program.
  const npm = spawnSync('npm', ['ci', '--loglevel=error', '--no-audit', '--no-fund'], {
    cwd: root,
    stdio: 'inherit',
  })
  if (npm.status !== 0) {
    console.error('npm ci failed: see its message above. fencepost needs the npm registry once, to install.')
    process.exit(1)
  }
}

const [program, ...args] = process.argv.slice(2)
if (program === undefined) {
  console.error('usage: node scripts/run.mjs <program> [arguments…]')
  process.exit(2)
}
const path = [join(root, 'node_modules', '.bin'), process.env.PATH ?? ''].join(':')
const child = spawn(newNode, [program, ...args], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, PATH: path },
})
// The terminal sends Ctrl-C to the whole process group; a supervisor sends SIGTERM to us alone: pass it on.
process.on('SIGINT', () => {})
process.on('SIGTERM', () => child.kill('SIGTERM'))
child.on('exit', (code, signal) => process.exit(code ?? (signal === 'SIGINT' ? 130 : 143)))
