/** The image of the Dockerfile: its content, its user, and that it serves on a read-only root. */
import { execFileSync } from 'node:child_process'
import { statSync } from 'node:fs'
import { access } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import manifest from '../../package.json' with { type: 'json' }
import lock from '../../package-lock.json' with { type: 'json' }
import { isLeftOut, type LockEntry } from '../../scripts/sbom.ts'
import { type BuiltImage, buildImage, jsonOf } from '../support/container-image.ts'
import { imageEnvironment } from '../support/image-environment.ts'

let image: BuiltImage

/** Those that no package of production depends on, such as the clients of the saga kit's brokers. */
const development = Object.keys(manifest.devDependencies).filter((name) => {
  const entry = (lock.packages as Record<string, LockEntry>)[`node_modules/${name}`]
  return entry !== undefined && isLeftOut(entry)
})
/** Our own are built, and beside the sidecar. */
const ofOthers = Object.keys(manifest.dependencies).filter((name) => !name.startsWith('@fencepost/'))

async function missing(paths: readonly string[]): Promise<string[]> {
  const there = await Promise.all(
    paths.map((path) =>
      access(join(image.root, 'app', path)).then(
        () => true,
        () => false,
      ),
    ),
  )
  return paths.filter((_, index) => !there[index])
}

beforeAll(async () => {
  image = await buildImage()
}, 300_000)
afterAll(() => image?.[Symbol.asyncDispose]())

test('it runs as a numeric user that is not root, by an entry point without a shell', () => {
  const { User, Entrypoint, Cmd, Env } = image.config
  expect({ User, Entrypoint, Cmd }).toEqual({
    User: '65532:65532',
    Entrypoint: ['/nodejs/bin/node', '/app/dist/main.js'],
    Cmd: ['serve'],
  })
  // Measurements of memory run in this environment.
  expect(Env).toEqual(
    expect.arrayContaining(Object.entries(imageEnvironment()).map((pair) => pair.join('='))),
  )
})

test('it holds one program, and neither packages, sources, tests nor tools', async () => {
  const wanted = [
    'dist/main.js',
    'dist/redis/lua/claim.lua',
    'dist/THIRD-PARTY-LICENSES.txt',
    'package.json',
    'LICENSE',
  ]
  expect(await missing(wanted)).toEqual([])
  const unwanted = ['node_modules', 'dist/packages', 'src', 'packages', 'scripts', 'test', '.git']
  expect(await missing(unwanted)).toEqual(unwanted)
})

test('it adds less than 16 MiB to its base', () => {
  const said = execFileSync('du', ['-sm', join(image.root, 'app')], { encoding: 'utf8' })
  const mebibytes = Number.parseInt(said, 10)
  console.log(`${mebibytes} MiB in /app`)
  expect(mebibytes).toBeLessThan(16)
  expect(mebibytes).toBeGreaterThan(2)
})

test('no file in it belongs to the user that it runs as', () => {
  expect(
    ['app', 'app/dist', 'app/dist/main.js', 'app/sbom.cdx.json'].map(
      (path) => statSync(join(image.root, path)).uid,
    ),
  ).toEqual([0, 0, 0, 0])
})

test('its bill of materials names every package of production', async () => {
  expect(image.config.Labels['dev.fencepost.sbom']).toBe('/app/sbom.cdx.json')
  const { components } = (await jsonOf(image, 'app/sbom.cdx.json')) as { components: { name: string }[] }
  const named = new Set(components.map(({ name }) => name))
  expect(ofOthers.filter((name) => !named.has(name))).toEqual([])
  expect(development.filter((name) => named.has(name))).toEqual([])
})

test('it serves on a read-only root, and exits with 0 on SIGTERM', async () => {
  await using child = image.start({
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_PROXY_LISTEN: 'off',
    FENCEPOST_API_LISTEN: '127.0.0.1:0',
    FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
  })
  const [line] = await child.line(/^\{.*"message":"fencepost is serving".*$/)
  const { addresses } = JSON.parse(line) as { addresses: { admin: string } }
  await child.http(`${addresses.admin}/readyz`)
  const metrics = await fetch(`${addresses.admin}/metrics`).then((answer) => answer.text())
  expect(metrics).toContain('process_resident_memory_bytes')
  expect(await child.end()).toEqual({ code: 0, signal: null })
})
