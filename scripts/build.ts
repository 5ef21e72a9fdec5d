/**
 * `npm run build`: dist/ from src/, anew: what the compiler makes of the TypeScript, and beside it every other file (Lua
 * scripts, SQL, schemas), which the code reads relative to itself.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, existsSync, rmSync } from 'node:fs'

// Files of sources that are gone would be shipped for ever.
rmSync('dist', { recursive: true, force: true })
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json'], { stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
cpSync('src', 'dist', { recursive: true, filter: (path) => !/\.(ts|md)$/.test(path) })
// `bin` of package.json: npm links it, and the shell starts it.
if (existsSync('dist/main.js')) chmodSync('dist/main.js', 0o755)
