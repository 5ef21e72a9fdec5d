/** When two builds are one image, and what has to be attached to it. */
import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { describeLayout, differencesOf, unattested } from '../../scripts/image-layout.ts'
import { folderOfTests } from '../support/during-tests.ts'
import { TestProcess } from '../support/processes.ts'

const folder = folderOfTests('layouts')

const SLSA = 'https://slsa.dev/provenance/v1'
const SPDX = 'https://spdx.dev/Document'
type Given = {
  readonly layers?: readonly string[]
  readonly config?: string
  /** Types of statements, and when the build was that they state. */
  readonly attached?: readonly [types: readonly string[], when: string]
}
let layouts = 0

/** As buildx writes one with `type=oci`, unpacked: an index of images, and of manifests of statements beside them. */
function layoutOf(platforms: Readonly<Record<string, Given>>): string {
  layouts += 1
  const place = join(folder, String(layouts))
  mkdirSync(join(place, 'blobs/sha256'), { recursive: true })
  const blob = (content: unknown) => {
    const text = typeof content === 'string' ? content : JSON.stringify(content)
    const hex = createHash('sha256').update(text).digest('hex')
    writeFileSync(join(place, 'blobs/sha256', hex), text)
    return { digest: `sha256:${hex}`, size: text.length }
  }
  const manifests = Object.entries(platforms).flatMap(([platform, given]) => {
    const { layers = ['base', 'added'], config = 'config', attached } = given
    const [os, architecture] = platform.split('/')
    const image = blob({ config: blob(`${config} of ${platform}`), layers: layers.map(blob) })
    const of = { ...image, platform: { os, architecture } }
    if (attached === undefined) return [of]
    const [types, when] = attached
    const statements = types.map((type) => ({
      ...blob(`${type} of ${when}`),
      annotations: { 'in-toto.io/predicate-type': type },
    }))
    const beside = blob({ config: blob(''), layers: statements })
    const annotations = {
      'vnd.docker.reference.digest': image.digest,
      'vnd.docker.reference.type': 'attestation-manifest',
    }
    return [of, { ...beside, annotations, platform: { os: 'unknown', architecture: 'unknown' } }]
  })
  writeFileSync(join(place, 'index.json'), JSON.stringify({ manifests: [blob({ manifests })] }))
  return place
}

test('a layout has an image for each platform, with the sizes of its layers', () => {
  const { images } = describeLayout(
    layoutOf({ 'linux/amd64': {}, 'linux/arm64': { layers: ['base of arm64', 'added'] } }),
  )
  expect([...images.keys()]).toEqual(['linux/amd64', 'linux/arm64'])
  expect(images.get('linux/arm64')?.layers.map(({ size }) => size)).toEqual([13, 5])
  // What is added is the same for both.
  expect(images.get('linux/arm64')?.layers[1]).toEqual(images.get('linux/amd64')?.layers[1])
})

const both = (given: Given = {}) => ({ 'linux/amd64': {}, 'linux/arm64': given })
const built = (when: string): Given => ({ attached: [[SLSA, SPDX], when] })

// biome-ignore format: the table reads as a table
test.each<[string, Readonly<Record<string, Given>>, Readonly<Record<string, Given>>, readonly string[]]>([
  ['nothing differs',               both(),                 both(),                               []],
  ['only the time that is attested', both(built('Monday')), both(built('Tuesday')),               []],
  ['a layer differs',               both(),                 both({ layers: ['base', 'other'] }),  ['linux/arm64: layer 2 of 2 differs']],
  ['both layers differ',            both(),                 both({ layers: ['new', 'other'] }),   ['linux/arm64: layer 1 of 2 differs', 'linux/arm64: layer 2 of 2 differs']],
  ['a layer more',                  both(),                 both({ layers: ['base', 'a', 'b'] }), ['linux/arm64: 2 layers, and 3 in the other build']],
  ['the configuration differs',     both(),                 both({ config: 'other' }),            ['linux/arm64: the layers are the same, the configuration differs']],
  ['a platform is missing',         both(),                 { 'linux/amd64': {} },                ['linux/arm64: only one build has it']],
])('two builds: %s', (_case, one, other, differences) => {
  expect(differencesOf(describeLayout(layoutOf(one)), describeLayout(layoutOf(other)))).toEqual(differences)
})

// biome-ignore format: the table reads as a table
test.each<[string, Given, readonly string[]]>([
  ['both',                             built('Monday'),                      []],
  ['provenance alone',                 { attached: [[SLSA], 'Monday'] },     ['linux/amd64: no bill of materials is attached']],
  ['an older provenance, CycloneDX',   { attached: [['https://slsa.dev/provenance/v0.2', 'https://cyclonedx.org/bom'], 'Monday'] }, []],
  ['a bill alone',                     { attached: [[SPDX], 'Monday'] },     ['linux/amd64: no provenance is attached']],
  ['nothing',                          {},                                   ['linux/amd64: no provenance is attached', 'linux/amd64: no bill of materials is attached']],
])('attached to an image: %s', (_case, given, missing) => {
  expect(unattested(describeLayout(layoutOf({ 'linux/amd64': given })))).toEqual(missing)
})

test('a layout of one platform only, or of two names, is refused', () => {
  const place = layoutOf(both())
  const index = JSON.parse(readFileSync(join(place, 'index.json'), 'utf8'))
  writeFileSync(
    join(place, 'index.json'),
    JSON.stringify({ manifests: [...index.manifests, ...index.manifests] }),
  )
  expect(() => describeLayout(place)).toThrow('2 images under one name; a release has 1')
  const [first] = JSON.parse(
    readFileSync(join(place, 'blobs', index.manifests[0].digest.replace(':', '/')), 'utf8'),
  ).manifests
  writeFileSync(join(place, 'index.json'), JSON.stringify({ manifests: [first] }))
  expect(() => describeLayout(place)).toThrow('is for one platform only')
})

test.each([
  ['the same, attested', layoutOf(both(built('Tuesday'))), 1, /^linux\/amd64: no provenance is attached$/m],
  [
    'attested for every platform',
    layoutOf({ 'linux/amd64': built('a'), 'linux/arm64': built('a') }),
    0,
    /^linux\/arm64 sha256:[0-9a-f]{64}$/m,
  ],
])('as a command: %s', async (_case, place, code, line) => {
  await using compared = new TestProcess(process.execPath, ['scripts/image-layout.ts', place, place])
  expect((await compared.exited).code, compared.output).toBe(code)
  expect(compared.output).toMatch(line)
})
