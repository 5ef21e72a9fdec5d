/**
 * Brings the server programs of the tests (the table in test/support/programs.ts) onto the machine: from the packages
 * of Debian or Ubuntu where we are root or sudo asks for no password, else by saying what to install.
 *
 * It starts none of them, and prompts for no password.
 */
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { findProgram, missingProgram, type ServerProgram, serverPrograms } from '../test/support/programs.ts'

export type Machine = {
  /** Runs a program to its end; true where it ended with 0. */
  readonly run: (command: string, args: readonly string[], output: 'shown' | 'hidden') => boolean
  readonly isRoot: boolean
  readonly has: (program: Pick<ServerProgram, 'programs' | 'alsoIn' | 'isLibrary'>) => boolean
  readonly say: (sentence: string) => void
}

export const thisMachine: Machine = {
  // Output of apt goes to stderr: stdout is for the result of the tests.
  run: (command, args, output) =>
    spawnSync(command, args, { stdio: output === 'shown' ? ['ignore', 2, 2] : 'ignore' }).status === 0,
  isRoot: process.getuid?.() === 0,
  has: (program) => findProgram(program) !== undefined,
  say: (sentence) => console.error(sentence),
}

/** @returns the programs that are still missing. */
export function provideServerPrograms(
  machine: Machine = thisMachine,
  wanted: readonly ServerProgram[] = Object.values(serverPrograms),
): ServerProgram[] {
  const missing = wanted.filter((program) => !machine.has(program))
  if (missing.length === 0) return []
  const how = rightToInstall(machine)
  if (how !== undefined) {
    const packages = debianPackages(missing)
    machine.say(`installing ${packages.join(', ')} (apt-get) …`)
    const [command, ...before] = [...how, 'sh', join(import.meta.dirname, 'install-servers.sh')] as const
    machine.run(command as string, [...before, ...packages], 'shown')
  }
  return missing.filter((program) => !machine.has(program))
}

/** The prefix of a command that needs root; undefined where installing is impossible. */
function rightToInstall(machine: Machine): readonly string[] | undefined {
  if (!machine.has({ programs: ['apt-get'] })) return undefined
  if (machine.isRoot) return []
  const withoutPassword = machine.has({ programs: ['sudo'] }) && machine.run('sudo', ['-n', 'true'], 'hidden')
  return withoutPassword ? ['sudo', '-n'] : undefined
}

/** One sentence for each missing program, and the one command that brings all of them. */
export function whatToInstall(missing: readonly ServerProgram[]): string[] {
  if (missing.length === 0) return []
  return [
    ...missing.map(missingProgram),
    `All at once on Debian or Ubuntu, without starting a service: sudo sh scripts/install-servers.sh ${debianPackages(missing).join(' ')}`,
  ]
}

function debianPackages(programs: readonly ServerProgram[]): string[] {
  return [...new Set(programs.map((program) => program.debianPackage))]
}
