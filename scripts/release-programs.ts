/**
 * What `npm run release -- image` and `newcomer image` start beside the programs of the tests, and their packages. No test needs
 * them: the emulator alone is as large as everything that `npm test` installs.
 */
import { findProgram, missingProgram, type ServerProgram, serverPrograms } from '../test/support/programs.ts'
import { provideServerPrograms, whatToInstall } from './server-programs.ts'

export const releasePrograms = {
  arm64Emulator: {
    programs: ['qemu-aarch64-static', 'qemu-aarch64'],
    debianPackage: 'qemu-user-static',
    elsewhere: 'a statically linked qemu-aarch64 of your distribution',
    why: 'the image for arm64 is run',
  },
  arm64Libraries: {
    programs: ['ld-linux-aarch64.so.1'],
    alsoIn: ['/usr/aarch64-linux-gnu/lib'],
    isLibrary: true,
    debianPackage: 'libstdc++6-arm64-cross',
    elsewhere: 'the C and C++ libraries of arm64 in /usr/aarch64-linux-gnu/lib',
    why: 'the base image for arm64, which stands in for the published one, has them',
  },
  arm64Atomic: {
    programs: ['libatomic.so.1'],
    alsoIn: ['/usr/aarch64-linux-gnu/lib'],
    isLibrary: true,
    debianPackage: 'libatomic1-arm64-cross',
    elsewhere: 'the library of atomic operations of arm64 in /usr/aarch64-linux-gnu/lib',
    why: 'Node for arm64 is linked with it',
  },
} as const satisfies Record<string, ServerProgram>

/** Of the table of the tests. */
const ALSO = ['buildah', 'busybox', 'dockerRegistry'] as const

export function releaseProgram(name: keyof typeof releasePrograms): string {
  const wanted: ServerProgram = releasePrograms[name]
  const found = findProgram(wanted)
  if (found === undefined) throw new Error(missingProgram(wanted))
  return found
}

/**
 * Installs what is missing where it may, before minutes are spent on the first steps.
 *
 * @throws with a sentence for each program that is still missing
 */
export function provideReleasePrograms(): void {
  const wanted = [...Object.values(releasePrograms), ...ALSO.map((name) => serverPrograms[name])]
  const sentences = whatToInstall(provideServerPrograms(undefined, wanted))
  if (sentences.length > 0) throw new Error(sentences.join('\n'))
}
