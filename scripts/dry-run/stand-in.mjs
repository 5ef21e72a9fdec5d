/**
 * Stands on the PATH of a dry run's steps under the name of a program: asks the dry run what to do, and answers as the program would.
 *
 * Usage: node stand-in.mjs SOCKET PROGRAM [arguments…]
 */
import { request } from 'node:http'

const [socketPath, program, ...args] = process.argv.slice(2)
const asked = request({ socketPath, path: '/', method: 'POST' }, async (response) => {
  const { code, stdout, stderr } = JSON.parse(Buffer.concat(await response.toArray()).toString())
  // Whoever reads it may have seen enough, as `grep -q` has.
  process.stdout.on('error', () => {})
  process.stdout.write(stdout)
  process.stderr.write(stderr)
  process.exitCode = code
})
asked.on('error', (error) => {
  console.error(`${program}: the dry run does not answer: ${error.message}`)
  process.exitCode = 1
})
asked.end(JSON.stringify({ program, args, cwd: process.cwd(), env: process.env }))
