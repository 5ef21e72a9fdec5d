/** docs/operations/drills.md in its parts. `test/system/drills.long.test.ts` runs its commands. */
import { describe, expect, test } from 'vitest'
import { COMMANDS } from '../../src/cli/program.ts'
import { DRILL_STEPS, KUBERNETES_STEPS, missingIn } from '../support/drills-page.ts'

test('the page drills a node in four ways, a zone in two, and all nodes in three', () => {
  expect([...new Set(DRILL_STEPS.map(({ heading }) => heading))]).toEqual([
    'Nodes that are processes on this machine',
    'What all drills use',
    'Its process is killed',
    'It is started again with its data',
    'Its volume is lost',
    'It becomes a replica, and is promoted',
    'It is cut off',
    'It is back',
    'Its volumes are lost',
    'The quorum is lost',
    'The power of all machines fails',
    'More volumes are lost than a quorum survives',
    'Afterwards',
  ])
})

test('both kinds of nodes have the same functions', () => {
  const functionsOf = (steps: typeof DRILL_STEPS) =>
    steps.flatMap(({ commands }) => [...commands.matchAll(/^(\w+)\(\) \{/gm)].map(([, name]) => name))
  const processes = functionsOf(DRILL_STEPS.slice(0, 1))
  expect(processes).toEqual(expect.arrayContaining(['node', 'address', 'crash', 'start', 'empty']))
  const own = ['port', 'machine']
  expect(functionsOf(KUBERNETES_STEPS).filter((name) => !own.includes(name ?? ''))).toEqual(
    processes.filter((name) => !own.includes(name ?? '')),
  )
})

/** Those that only define functions show nothing. */
const STEPS = DRILL_STEPS.filter(({ commands }) => !/^\w+\(\)/.test(commands))

describe.each(STEPS)('$heading: $commands', ({ commands, seen }) => {
  test('the page says what must be seen', () => {
    expect(seen.length).toBeGreaterThan(0)
  })

  test('the commands of fencepost exist', () => {
    const called = [...commands.matchAll(/\$FENCEPOST ([\w-]+)/g)].map(([, name]) => name as string)
    expect(called.filter((name) => !(name in COMMANDS))).toEqual([])
  })
})

test.each([
  ['redis-4 … down', 'redis-4 (127.0.0.1:7104)  down         connection closed', true],
  ['redis-4 … down', 'redis-4 (127.0.0.1:7104)  voting\nredis-3 (127.0.0.1:7103)  down', false],
  ['20 ok, 0 false positives', '20 volleys of 5: 20 ok, 0 false positives, 0 errors', true],
  ['20 ok, 0 false positives', '20 volleys of 5: 19 ok, 1 false positives, 0 errors', false],
])('%j is seen in %j: %s', (line, output, seen) => {
  expect(missingIn(output, { heading: '', commands: '', seen: [line] })).toEqual(seen ? [] : [line])
})
