/**
 * What is in a folder that holds an image as an OCI layout, and in what two of them differ: for the digests and sizes that a release states,
 * and for the claim that two builds of one commit are one image.
 *
 * Owns which difference counts. The index of an image with an attestation of its provenance differs with every build, because that states
 * when and where it was built; the images in it may not.
 *
 * Source: https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md and, for attestations,
 * https://github.com/moby/buildkit/blob/master/docs/attestations/attestation-storage.md
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

type Descriptor = {
  readonly digest: string
  readonly size: number
  readonly platform?: { readonly architecture: string; readonly os: string }
  readonly annotations?: Readonly<Record<string, string>>
}
type Manifest = { readonly config: Descriptor; readonly layers: readonly Descriptor[] }

export type PlatformImage = {
  readonly digest: string
  /** From the bottom: those of the base first. */
  readonly layers: readonly { readonly digest: string; readonly size: number }[]
  /** The types of the statements about it that are beside it in the index. */
  readonly attestations: readonly string[]
}
export type Layout = {
  /** Of the index, which is what a tag names. */
  readonly digest: string
  /** From `linux/amd64`. */
  readonly images: ReadonlyMap<string, PlatformImage>
}

/** @throws where it is no layout of one image for several platforms */
export function describeLayout(folder: string): Layout {
  const read = (digest: string): unknown =>
    JSON.parse(readFileSync(join(folder, 'blobs', digest.replace(':', '/')), 'utf8'))
  const { manifests: roots } = JSON.parse(readFileSync(join(folder, 'index.json'), 'utf8')) as {
    readonly manifests: readonly Descriptor[]
  }
  const [root] = roots
  if (root === undefined || roots.length > 1)
    throw new Error(`${folder} has ${roots.length} images under one name; a release has 1`)
  const { manifests } = read(root.digest) as { readonly manifests?: readonly Descriptor[] }
  if (manifests === undefined) throw new Error(`the image in ${folder} is for one platform only`)
  const attested = new Map<string, string[]>()
  for (const { digest, annotations } of manifests) {
    const about = annotations?.['vnd.docker.reference.digest']
    if (annotations?.['vnd.docker.reference.type'] !== 'attestation-manifest' || about === undefined) continue
    const { layers } = read(digest) as Manifest
    attested.set(
      about,
      layers.map((layer) => layer.annotations?.['in-toto.io/predicate-type'] ?? ''),
    )
  }
  const images = manifests.flatMap(({ digest, platform, annotations }) => {
    if (annotations?.['vnd.docker.reference.type'] !== undefined) return []
    const layers = (read(digest) as Manifest).layers.map((layer) => ({
      digest: layer.digest,
      size: layer.size,
    }))
    const name = `${platform?.os}/${platform?.architecture}`
    return [[name, { digest, layers, attestations: attested.get(digest) ?? [] }] as const]
  })
  return { digest: root.digest, images: new Map(images) }
}

/** Sentences; none where both have the same image for each platform. */
export function differencesOf(one: Layout, other: Layout): readonly string[] {
  const platforms = [...new Set([...one.images.keys(), ...other.images.keys()])].sort()
  return platforms.flatMap((platform) => {
    const [left, right] = [one.images.get(platform), other.images.get(platform)]
    if (left === undefined || right === undefined) return [`${platform}: only one build has it`]
    if (left.digest === right.digest) return []
    if (left.layers.length !== right.layers.length)
      return [`${platform}: ${left.layers.length} layers, and ${right.layers.length} in the other build`]
    const changed = left.layers.flatMap((layer, index) =>
      layer.digest === right.layers[index]?.digest
        ? []
        : [`${platform}: layer ${index + 1} of ${left.layers.length} differs`],
    )
    // The layers are the same, so it is what the manifest or the configuration say.
    return changed.length > 0 ? changed : [`${platform}: the layers are the same, the configuration differs`]
  })
}

/** Sentences; none where each image has its provenance and its bill of materials beside it. */
export function unattested({ images }: Layout): readonly string[] {
  const wanted = {
    provenance: /^https:\/\/slsa\.dev\/provenance\//,
    'bill of materials': /(spdx|cyclonedx)/i,
  }
  return [...images].flatMap(([platform, { attestations }]) =>
    Object.entries(wanted).flatMap(([what, type]) =>
      attestations.some((one) => type.test(one)) ? [] : [`${platform}: no ${what} is attached`],
    ),
  )
}

if (import.meta.main) {
  const folders = process.argv.slice(2)
  if (folders.length === 0)
    throw new Error('usage: node scripts/image-layout.ts FOLDER [FOLDER of another build]')
  const layouts = folders.map(describeLayout)
  const [one, other] = layouts
  const faults = [...layouts.flatMap(unattested), ...(other === undefined ? [] : differencesOf(one!, other))]
  for (const fault of faults) console.error(fault)
  console.log([...one!.images].map(([platform, { digest }]) => `${platform} ${digest}`).join('\n'))
  process.exitCode = faults.length === 0 ? 0 : 1
}
