/**
 * What `npm run release -- newcomer image` does: it pulls the image for each architecture from a registry on loopback, and lets it do its
 * main job.
 *
 * Owns the claim that the image runs as it is pulled: with nothing else in sight, under its own user and on a read-only root. What is not
 * this machine's architecture is emulated.
 */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ARCHITECTURES, type Architecture, OWN_ARCHITECTURE } from '../test/support/base-images.ts'
import { type Buildah, openBuildah } from '../test/support/buildah.ts'
import { mountImage } from '../test/support/container-image.ts'
import { startImageRegistry } from '../test/support/image-registry.ts'
import { buildImages, commitOf, pushImage } from './image.ts'
import { addressesOf, FIRST_LOOK, reserveTwice } from './newcomer-sidecar.ts'
import { provideReleasePrograms, releaseProgram } from './release-programs.ts'
import { currentVersion } from './version.ts'

type Say = (line: string) => void

/** An emulated start compiles without the processor's help. */
const EMULATED_START_MS_MAX = 600_000

/** Pulls the image for each architecture and lets it serve, on a read-only root and under its own user. */
async function playImage(buildah: Buildah, reference: string, say: Say): Promise<void> {
  for (const architecture of ARCHITECTURES) {
    const emulator = emulatorOf(architecture)
    const from = ['--quiet', '--pull-always', '--tls-verify=false', '--arch', architecture]
    const image = await mountImage(buildah, `docker://${reference}`, from)
    const emulated = emulator === undefined ? '' : ' (emulated)'
    await using child = image.start(FIRST_LOOK, undefined, emulator)
    await reserveTwice(await addressesOf(child, { withinMs: EMULATED_START_MS_MAX }))
    const { code } = await child.end({ withinMs: EMULATED_START_MS_MAX })
    if (code !== 0) throw new Error(`the image for ${architecture} ended with ${code}:\n${child.output}`)
    await using asked = image.start({}, ['--version'], emulator)
    await asked.exited
    if (asked.output.trim() !== currentVersion())
      throw new Error(`the image for ${architecture} says that it is ${asked.output.trim()}`)
    say(`image: linux/${architecture} serves, a reservation is made once, and it ends with 0${emulated}`)
  }
}

function emulatorOf(architecture: Architecture): string | undefined {
  if (architecture === OWN_ARCHITECTURE) return undefined
  if (architecture === 'amd64')
    throw new Error('linux/amd64 is run on amd64 only; here its image is unchecked')
  return releaseProgram('arm64Emulator')
}

/** Builds, pushes to a registry of its own, and plays. */
export async function playImageAlone(folder: string, say: Say): Promise<void> {
  provideReleasePrograms()
  await using registry = await startImageRegistry()
  const storage = join(folder, 'images')
  mkdirSync(storage)
  await using buildah = await openBuildah(storage)
  const name = await buildImages({ buildah, folder, localBasesAt: registry.host, commit: commitOf() })
  const reference = `${registry.host}/fencepost/fencepost:${currentVersion()}`
  await pushImage(buildah, name, `docker://${reference}`)
  await playImage(buildah, reference, say)
}
