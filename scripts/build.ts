/**
 * `npm run build`: dist/ from src/, anew: what the compiler makes of the TypeScript, and beside it every other file (Lua
 * scripts, SQL, schemas), which the code reads relative to itself.
 *
 * Usage: node scripts/run.mjs scripts/build.ts [folder instead of dist]
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'

const target = process.argv[2] ?? 'dist'

// Files of sources that are gone would be shipped for ever.
rmSync(target, { recursive: true, force: true })
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json', '--outDir', target], { stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
cpSync('src', target, { recursive: true, filter: (path) => !/\.(ts|md)$/.test(path) })
// `bin` of package.json: npm links it, and the shell starts it.
chmodSync(join(target, 'main.js'), 0o755)
