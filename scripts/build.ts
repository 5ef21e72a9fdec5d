/**
 * `npm run build`: dist/ from the sources, anew. The sidecar is in dist/ itself, as one program (`bundle.ts`); each package is
 * in dist/packages/ as it is published. `npm run release -- pack` makes tarballs of them.
 *
 * Owns the difference between a package in this repository and a published one. Here its `exports` name the sources, so
 * that programs and tests run without a build and without an option. Published they name the compiled files.
 *
 * Usage: node scripts/run.mjs scripts/build.ts [--unchecked] [folder instead of dist]
 *
 * `--unchecked` leaves the check of types to `npm run lint`: for tests, beside which it runs anyway.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { bundleSidecar } from './bundle.ts'

const PACKAGES = ['client', 'saga']
/**
 * The sidecar's sources that the kit uses: those of the one file that reaches out of its package
 * (packages/saga/src/core.ts).
 */
const CORE = '../../../src/core/'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { unchecked: { type: 'boolean', default: false } },
})
const target = positionals[0] ?? 'dist'
const compiled = join(target, '.compiled')

// Files of deleted sources would be shipped for ever.
rmSync(target, { recursive: true, force: true })
const options = [
  '-p',
  'tsconfig.build.json',
  '--outDir',
  compiled,
  ...(values.unchecked ? ['--noCheck'] : []),
]
const { status } = spawnSync('node_modules/.bin/tsc', options, { stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
await bundleSidecar(target)
for (const name of PACKAGES) placePackage(name)
rmSync(compiled, { recursive: true })

function placePackage(name: string): void {
  const source = join('packages', name)
  const folder = join(target, 'packages', name)
  const from = join(compiled, source, 'src')
  for (const file of globSync('**/*.{js,d.ts}', { cwd: from })) {
    const text = published(join(from, file))
    for (const [, taken] of text.matchAll(new RegExp(`'${CORE}(.+)\\.[jt]s'`, 'g'))) placeCore(folder, taken!)
    place(join(folder, file), text.replaceAll(CORE, './core/'))
  }
  const manifest = JSON.parse(readFileSync(join(source, 'package.json'), 'utf8')) as Manifest
  place(join(folder, 'package.json'), `${JSON.stringify(publishedManifest(manifest), undefined, 2)}\n`)
  copyFileSync(join(source, 'README.md'), join(folder, 'README.md'))
  copyFileSync('LICENSE', join(folder, 'LICENSE'))
}

/** With what it imports in turn. */
function placeCore(folder: string, name: string): void {
  for (const ending of ['.js', '.d.ts']) {
    const text = published(join(compiled, 'src/core', name + ending))
    place(join(folder, 'core', name + ending), text)
    for (const [, next] of text.matchAll(/from '\.\/(.+)\.[jt]s'/g)) placeCore(folder, next!)
  }
}

/** Without the line that leads to its source map, which is not published: the sources are not either. */
function published(file: string): string {
  return readFileSync(file, 'utf8').replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n')
}

type Manifest = {
  readonly private: true
  readonly scripts: unknown
  readonly exports: Readonly<Record<string, string>>
  readonly bin?: Readonly<Record<string, string>>
}

function publishedManifest({
  private: _,
  scripts: _ofTheSources,
  exports,
  bin = {},
  ...rest
}: Manifest): object {
  const compiledOf = (source: string) => source.replace(/^\.\/src\/(.*)\.ts$/, './$1')
  const doors = Object.entries(exports).map(([door, source]) => {
    const file = compiledOf(source)
    return [door, { types: `${file}.d.ts`, default: `${file}.js` }]
  })
  const programs = Object.entries(bin).map(([name, source]) => [name, `${compiledOf(source)}.js`])
  return {
    ...rest,
    ...(programs.length === 0 ? {} : { bin: Object.fromEntries(programs) }),
    ...forOldResolution(Object.fromEntries(doors)),
    exports: Object.fromEntries(doors),
  }
}

type Door = { readonly types: string; readonly default: string }

/**
 * The same doors for who does not read `exports`: TypeScript with `"module": "commonjs"`, as long as that resolves as Node 10 did.
 * The code that it writes is resolved by Node, which reads them.
 */
function forOldResolution({ '.': front, ...others }: Readonly<Record<string, Door>>): object {
  const elsewhere = Object.entries(others).filter(([door, { types }]) => types !== `${door}.d.ts`)
  const types = elsewhere.map(([door, of]) => [door.slice(2), [of.types]])
  return {
    main: front?.default,
    types: front?.types,
    ...(types.length === 0 ? {} : { typesVersions: { '*': Object.fromEntries(types) } }),
  }
}

function place(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true })
  writeFileSync(file, text)
}
