import { basename } from 'node:path'
import { expect, test } from 'vitest'
import { type Machine, provideServerPrograms, whatToInstall } from '../../scripts/server-programs.ts'
import { findProgram, type ServerProgram } from '../support/programs.ts'

const broker: ServerProgram = {
  programs: ['broker-server'],
  debianPackage: 'broker',
  elsewhere: 'brew install broker',
  why: 'messages are tested on a real broker',
}

/** A machine as a set of programs; installing adds the broker where the machine may do so. */
function machine(programs: string[], { isRoot = false, sudoAsks = true, offline = false } = {}) {
  const present = new Set(programs)
  const commands: string[] = []
  const it: Machine = {
    isRoot,
    say: () => {},
    has: (wanted) => wanted.programs.some((program) => present.has(program)),
    run: (command, args) => {
      commands.push([command, ...args.map((arg) => basename(arg))].join(' '))
      if (command === 'sudo' && sudoAsks) return false
      if (args.includes('broker') && !offline) present.add('broker-server')
      return true
    },
  }
  return { it, commands }
}

const install = 'sh install-servers.sh broker'

// biome-ignore format: the table reads as a table
test.each([
  ['present already',                     ['broker-server'],    {},                                   [],                             'provided'],
  ['missing, we are root',                ['apt-get'],          { isRoot: true },                     [install],                      'provided'],
  ['missing, sudo asks for no password',  ['apt-get', 'sudo'],  { sudoAsks: false },                  ['sudo -n true', `sudo -n ${install}`], 'provided'],
  ['missing, sudo asks for a password',   ['apt-get', 'sudo'],  {},                                   ['sudo -n true'],               'told'],
  ['missing, no sudo',                    ['apt-get'],          {},                                   [],                             'told'],
  ['missing, not Debian',                 [],                   { isRoot: true },                     [],                             'told'],
  ['missing, root without a network',     ['apt-get'],          { isRoot: true, offline: true },      [install],                      'told'],
])('a program is %s', (_case, programs, rights, commands, end) => {
  const { it, commands: ran } = machine(programs, rights)
  const missing = provideServerPrograms(it, [broker])
  expect(ran).toEqual(commands)
  expect(missing).toEqual(end === 'provided' ? [] : [broker])
})

test('missing programs are named with the reason, and one command installs them all', () => {
  const second = { ...broker, programs: ['broker-admin', 'broker-cli'] }
  expect(whatToInstall([])).toEqual([])
  expect(whatToInstall([broker, second])).toEqual([
    'broker-server is not on this machine (messages are tested on a real broker). Install it: apt-get install broker; elsewhere: brew install broker.',
    'broker-admin or broker-cli is not on this machine (messages are tested on a real broker). Install it: apt-get install broker; elsewhere: brew install broker.',
    'All at once on Debian or Ubuntu, without starting a service: sudo sh scripts/install-servers.sh broker',
  ])
})

test('a program is found on the PATH, in further folders, or not at all', () => {
  const { execPath } = process
  const folder = execPath.slice(0, execPath.lastIndexOf('/'))
  expect(findProgram({ programs: ['no-such-program', 'node'] }, `/nowhere:${folder}`)).toBe(execPath)
  expect(findProgram({ programs: ['node'], alsoIn: [folder.replace(/n$/, '*')] }, '')).toBe(execPath)
  expect(findProgram({ programs: ['no-such-program'] }, folder)).toBeUndefined()
})
