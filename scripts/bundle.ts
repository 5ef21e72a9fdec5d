/**
 * The sidecar as one program: `main.js` with what every start needs, of its own sources and of every package that it runs with, a
 * file for each part that is loaded later, the operator's page, and the files that the code reads relative to itself (Lua scripts,
 * schemas). It needs no
 * `node_modules`, and it is ready three times as fast as from the 1,900 files of which it is made.
 *
 * Used by `npm run build`, and by the tests, which start hundreds of sidecars. Types are not checked here.
 */
import {
  chmodSync,
  copyFileSync,
  globSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { isBuiltin } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { type Plugin, type RolldownOutput, rolldown } from 'rolldown'

const root = join(import.meta.dirname, '..')
const sources = join(root, 'src')

const { engines } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  readonly engines: { readonly node: string }
}
/** A browser of the last years: what people who operate payments have. */
const PAGE_TARGET = 'es2022'
const OLDEST_NODE = engines.node.replace('>=', 'node')

/**
 * @param folder where `main.js` is placed, beside what is there; the folder above it needs the `package.json`, which has the version
 * @param seenFrom the folder from which source maps lead to the sources, where the program is moved afterwards
 */
export async function bundleSidecar(folder: string, seenFrom = folder): Promise<void> {
  const { output } = await bundled(seenFrom)
  const page = await bundledPage()
  mkdirSync(join(folder, 'page'), { recursive: true })
  for (const file of [...output, ...page])
    writeFileSync(join(folder, file.fileName), file.type === 'chunk' ? file.code : file.source)
  for (const file of globSync('**/*.*', { cwd: sources, exclude: ['**/*.{ts,tsx,md}'] })) {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    copyFileSync(join(sources, file), join(folder, file))
  }
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), licencesOf(packagesIn([...output, ...page])))
  // `bin` of package.json: npm links it, and the shell starts it. Where Node is known, as in the image, main.js is started.
  for (const program of ['fencepost.cjs', 'main.js']) chmodSync(join(folder, program), 0o755)
}

async function bundled(dir: string): Promise<RolldownOutput> {
  const bundle = await rolldown({
    input: join(sources, 'main.ts'),
    platform: 'node',
    // An optional one of debug, which does without: a development package must not bring it into the program.
    external: ['supports-color'],
    // Node 22 knows no `using`. The oldest Node of `engines` in package.json.
    transform: { target: OLDEST_NODE },
    // Its `paths` lead to declarations.
    tsconfig: false,
    plugins: [nothingLost, ownFiles, hiddenRequires, poolAlone, leftOut, builtinsWithoutFacade],
    // A busy machine is slow, and that is no fault of what is built.
    checks: { bundlerTimings: false },
    // A package that is not found is a warning, and would fail the first command that needs it.
    onLog: (level, { message }) => {
      if (level === 'warn') throw new Error(message)
    },
  })
  try {
    // Maps name the sources relative to the folder, and do not repeat them.
    return await bundle.generate({
      dir,
      format: 'esm',
      // V8 parses a file as a whole, and the C library keeps what that took: a single file of 2 MB left 6 MB of it.
      codeSplitting: { groups: [{ name: packageOf, minSize: 30_000 }] },
      sourcemap: true,
      sourcemapExcludeSources: true,
      comments: false,
      // Names and lines stay, for whoever reads a stack trace. V8 keeps a text as long as its code, and one character beyond Latin-1
      // doubles the whole of it: 6 MB at rest.
      minify: { compress: false, mangle: false, codegen: { removeWhitespace: false, asciiOnly: true } },
    })
  } finally {
    await bundle.close()
  }
}

/** The operator's page as one script: src/page/ and the packages that it uses, for browsers. */
async function bundledPage(): Promise<RolldownOutput['output']> {
  const bundle = await rolldown({
    input: join(sources, 'page/main.tsx'),
    platform: 'browser',
    transform: { target: PAGE_TARGET, jsx: { runtime: 'automatic', importSource: 'preact' } },
    tsconfig: false,
    plugins: [nothingLost],
    onLog: (level, { message }) => {
      if (level === 'warn') throw new Error(message)
    },
  })
  try {
    const { output } = await bundle.generate({ format: 'esm', entryFileNames: 'page/app.js', minify: true })
    return output
  } finally {
    await bundle.close()
  }
}

/** Rolldown takes a call of these for one without effect. */
const TAKEN_FOR_PURE = ['decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'String']
const MAY_BE_LOST = new RegExp(`\\b(${TAKEN_FOR_PURE.join('|')})\\(`)

/**
 * A statement that is nothing but such a call is made for the error that it may throw, and is left out of the program without a
 * word: what it checks would pass.
 */
export const nothingLost: Plugin = {
  name: 'nothing-lost',
  transform(code, id) {
    if (!MAY_BE_LOST.test(code)) return undefined
    const lang = /\.(tsx?|jsx)$/.exec(id)?.[1] ?? 'js'
    const [lost] = lostCalls(this.parse(code, { lang: lang as 'js' | 'jsx' | 'ts' | 'tsx' }))
    if (lost !== undefined)
      throw new Error(`${id}: nobody uses what ${lost}() returns, so it would be left out`)
    return undefined
  },
}

function lostCalls(node: unknown): readonly string[] {
  if (typeof node !== 'object' || node === null) return []
  const { type, expression } = node as { readonly type?: string; readonly expression?: Call }
  const called = type === 'ExpressionStatement' && expression?.type === 'CallExpression'
  const name = called ? expression.callee.name : undefined
  if (name !== undefined && TAKEN_FOR_PURE.includes(name)) return [name]
  return Object.values(node).flatMap(lostCalls)
}

type Call = { readonly type: string; readonly callee: { readonly name?: string } }

/** A source reads files relative to its own place, and stands in the folder of `main.js` now. */
const ownFiles: Plugin = {
  name: 'own-files',
  transform(code, id) {
    if (!id.startsWith(sources) || !code.includes('import.meta.url')) return undefined
    const place = `new URL('./${relative(sources, id).replace(/\.ts$/, '.js')}', import.meta.url).href`
    // No line moves.
    return { code: code.replaceAll('import.meta.url', place), map: null }
  },
}

/** A package that was bundled before it was published calls `require` by another name, which hides what it loads when it is needed. */
const hiddenRequires: Plugin = {
  name: 'hidden-requires',
  transform(code, id) {
    if (!id.includes('/node_modules/') || !code.includes('/_rolldown/runtime.mjs')) return undefined
    return { code: code.replaceAll('__require("', 'require("'), map: null }
  },
}

/** Of undici the pool alone: its index takes 20 ms of the start to load. */
const poolAlone: Plugin = {
  name: 'pool-alone',
  resolveId: (id) => (id === 'undici' ? join(import.meta.dirname, 'undici-pool.mjs') : undefined),
}

/**
 * By the package that asks for it: what a package loads together with itself, and no part of the sidecar uses. It throws when it is
 * called. 2 MB of memory are HTTP/2 alone; gRPC has its own.
 */
const UNUSED: Readonly<Record<string, readonly string[]>> = {
  // Bodies are validated with TypeBox, and answers are no schemas.
  fastify: [
    '@fastify/ajv-compiler',
    '@fastify/fast-json-stringify-compiler',
    'light-my-request',
    'node:http2',
  ],
  // `allowH2: false` and `useMilo: false`: the second of its two parsers, in two builds, is a quarter of the package.
  undici: ['./client-h2.js', '../milo/simd.js', '../milo/no-simd.js'],
  'prom-client': ['./lib/pushgateway', './lib/cluster'],
}

const LEFT_OUT = '\0left-out:'

const leftOut: Plugin = {
  name: 'left-out',
  resolveId: (id, importer) => {
    const unused = UNUSED[packageOf(importer ?? '') ?? '']
    return unused?.includes(id) ? `${LEFT_OUT}${id}` : undefined
  },
  load: (id) => {
    if (!id.startsWith(LEFT_OUT)) return undefined
    const name = id.slice(LEFT_OUT.length)
    const sentence = JSON.stringify(`${name} is not part of this program`)
    // Fastify asks for its compilers at once, and compiles later.
    const whole = name.endsWith('-compiler') ? '() => leftOut' : 'leftOut'
    const code = `function leftOut() { throw new Error(${sentence}) }\nmodule.exports = ${whole}\n`
    return { code, moduleType: 'js' }
  },
}

/**
 * Node's own modules without `import`: for that Node reads every export once, which loads what it would load when it is first used. Of
 * `node:http` that is its whole `fetch`, 50 ms of a start that has a core to itself.
 */
const builtinsWithoutFacade: Plugin = {
  name: 'builtins-without-facade',
  renderChunk: (code) => ({ code: withoutFacades(code), map: null }),
}

const BUILTIN_IMPORT =
  /^import (?:([\w$]+)(?:, )?)?(?:\* as ([\w$]+)|\{ ([^}]+) \})? from "((?:node:)?[\w/]+)";$/gm

/** Loaded by the first call of one of its functions: 5 MB, which only bodies with a coding need. */
const LATE_BUILTIN = 'node:zlib'

/** One line for one line, so that source maps stay true. */
export function withoutFacades(code: string): string {
  return code.replace(BUILTIN_IMPORT, (line, whole, all, names: string | undefined, from: string) => {
    if (!isBuiltin(from)) return line
    // `process` may be one of the names.
    const module = `globalThis.process.getBuiltinModule("${from}")`
    if (from === LATE_BUILTIN && names !== undefined) {
      const called = names.split(', ').map((one) => {
        const [name, here = name] = one.split(' as ')
        return `${here} = (...given) => ${module}.${name}(...given)`
      })
      return `const ${called.join(', ')};`
    }
    const kept = [whole, all].filter((name) => name !== undefined).map((name) => `${name} = ${module}`)
    const taken = names === undefined ? [] : [`{ ${names.replaceAll(' as ', ': ')} } = ${module}`]
    return `const ${[...kept, ...taken].join(', ')};`
  })
}

/** Undefined for a source of our own. */
function packageOf(id: string): string | null {
  return /^.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1]?.replace('/', '-') ?? null
}

/** The folders of the packages that have some code in the bundle. */
function packagesIn(output: readonly RolldownOutput['output'][number][]): readonly string[] {
  const modules = output.flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []))
  const folders = modules.flatMap((id) => /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? [])
  return [...new Set(folders)].sort()
}

function licencesOf(folders: readonly string[]): string {
  return folders
    .map((folder) => {
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
      const texts = readdirSync(folder, { withFileTypes: true })
        .filter((entry) => entry.isFile() && /^(licen[cs]e|notice|copying)/i.test(entry.name))
        .map(({ name }) => readFileSync(join(folder, name), 'utf8').trim())
      return [`${manifest.name} ${manifest.version} (${manifest.license})`, ...texts].join('\n\n')
    })
    .join(`\n\n${'-'.repeat(80)}\n\n`)
    .concat('\n')
}

type Manifest = { readonly name: string; readonly version: string; readonly license: string }
