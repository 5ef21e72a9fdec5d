/**
 * Runs a program of this repository on a fresh clone: installs the npm packages of the lock file where they are
 * missing or are those of another lock file, then hands over to the Node of the development dependency `node`.
 *
 * Plain JavaScript without dependencies, because it runs on whatever Node (>= 20) the machine has.
 * Usage: node scripts/run.mjs <program> [arguments…]; `--help` shows the comment at the head of the program.
 */
import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { asksForHelp, headComment } from './head-comment.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const modules = join(root, 'node_modules')
const lockFile = join(root, 'package-lock.json')
/** Programs with a help of their own. */
const ANSWERS_ITSELF = ['src/main.ts', 'scripts/start.ts']
/** The lock file that node_modules was last installed from. Contents, because git rewrites times. */
const installedLock = join(modules, '.fencepost-lock')

function main() {
  const [program, ...args] = process.argv.slice(2)
  if (program === undefined) fail(2, 'usage: node scripts/run.mjs <program> [arguments…]')
  if (asksForHelp(args) && !ANSWERS_ITSELF.includes(program)) {
    console.log(headComment(readFileSync(resolve(root, program), 'utf8')))
    return
  }
  if (!isAtLeast([20, 0]))
    fail(1, `fencepost needs Node 20 or newer to install itself; this is ${process.version}.`)
  if (!isInstalled()) install()
  hand(nodeToRun(), program, args)
}

function isInstalled() {
  return existsSync(installedLock) && readFileSync(installedLock).equals(readFileSync(lockFile))
}

function install() {
  console.error('installing the packages of package-lock.json (npm ci) …')
  // Under `npm run`, npm says where it is; then no npm is needed on the PATH.
  const npm = process.env.npm_execpath?.endsWith('.js')
    ? [process.execPath, process.env.npm_execpath]
    : ['npm']
  const options = [
    // Engine warnings are silenced: they are about the Node that starts us, not the one that runs the program.
    '--loglevel=error',
    // Also where NODE_ENV=production or a user's npmrc leaves the development packages out.
    '--include=dev',
    // `npm audit` has its own place (docs/internals/dependencies.md); an install does not wait for it.
    '--no-audit',
    '--no-fund',
  ]
  const [command, ...before] = npm
  const { status, error } = spawnSync(command, [...before, 'ci', ...options], { cwd: root, stdio: 'inherit' })
  if (error !== undefined)
    fail(1, `npm could not be started (${error.message}). fencepost needs npm to install its packages.`)
  if (status !== 0)
    fail(1, 'npm ci failed: see its message above. fencepost needs the npm registry once, to install.')
  copyFileSync(lockFile, installedLock)
}

/** The pinned Node; where install scripts are switched off it is missing, and any that runs TypeScript will do. */
function nodeToRun() {
  const pinned = join(modules, 'node', 'bin', 'node')
  if (existsSync(pinned)) return pinned
  // undici 8 asks for 22.19; Node strips types without a flag since 22.18.
  if (isAtLeast([22, 19])) return process.execPath
  fail(
    1,
    `The package \`node\` has not installed its program (are npm's install scripts switched off?), and this Node, ` +
      `${process.version}, is older than 22.19. Allow them (npm ci --ignore-scripts=false) or use a newer Node.`,
  )
}

function hand(node, program, args) {
  // The programs of node_modules/.bin, and among them the pinned Node, come first for everything that is started.
  const path = [join(modules, '.bin'), dirname(node), process.env.PATH ?? ''].join(delimiter)
  const child = spawn(node, [program, ...args], {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, PATH: path },
  })
  // The terminal sends Ctrl-C to the whole process group; a supervisor sends SIGTERM to us alone: pass it on.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  child.on('error', (error) => fail(1, `${node} could not be started: ${error.message}`))
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}

function isAtLeast([major, minor]) {
  const [ownMajor, ownMinor] = process.versions.node.split('.').map(Number)
  return ownMajor > major || (ownMajor === major && ownMinor >= minor)
}

/** @returns {never} */
function fail(code, sentence) {
  console.error(sentence)
  process.exit(code)
}

main()
