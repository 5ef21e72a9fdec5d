/** What `npm run release -- newcomer` shows: each package, from its tarball alone, on the oldest Node and the newest. */
import { expect, test } from 'vitest'
import { playNewcomer } from '../../scripts/newcomer.ts'

test('a newcomer installs each package, and it does its main job', { timeout: 900_000 }, async () => {
  const said: string[] = []
  await playNewcomer(['client', 'saga', 'fencepost'], (line) => said.push(line))
  expect(said.map((line) => line.split(':')[0])).toEqual([
    'checkout',
    'tarballs',
    ...['client', 'client', 'saga', 'saga'],
    ...['fencepost', 'fencepost', 'fencepost'],
  ])
})
