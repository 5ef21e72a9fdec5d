import { expect, test } from 'vitest'
import { type EpochShown, EpochWatch } from '../../../src/core/nodes/epoch-watch.ts'

const PROMOTED = 'c0ffee'
const SHOWN: EpochShown = {
  runId: 'run',
  epoch: '1:run:n1:1000:0',
  role: 'master',
  lineage: '0',
  evictedKeys: 0,
}

/** What the looks found, one after another: why the node has forgotten. */
function reasons(...looks: readonly Partial<EpochShown>[]): readonly (string | undefined)[] {
  const watch = new EpochWatch()
  return looks.map((more, at) => watch.saw({ ...SHOWN, ...more }, at))
}

const REPLICA = expect.stringContaining('it was a replica')
const SET_BACK = expect.stringContaining('its data were set back')
const EVICTED = 'it has evicted keys'
const LATER = { epoch: '1:run:n2:2000:0' }
const OLDER = { epoch: '1:run:n1:1000' }

test.each<[what: string, looks: readonly Partial<EpochShown>[], why: readonly unknown[]]>([
  ['that goes on', [{}, {}], [undefined, undefined]],
  ['that is a replica', [{}, { role: 'slave' }], [undefined, REPLICA]],
  ['that was a replica between two looks', [{}, { lineage: PROMOTED }], [undefined, REPLICA]],
  ['that was a replica before the first look', [{ lineage: PROMOTED }], [REPLICA]],
  [
    'that was a replica before its enrolment',
    [{ epoch: `1:run:n1:1:${PROMOTED}`, lineage: PROMOTED }],
    [undefined],
  ],
  [
    'that has freed what it kept for replicas, and was one before its enrolment',
    [{ epoch: `1:run:n1:1:${PROMOTED}` }],
    [undefined],
  ],
  ['that was a replica once more', [{ epoch: '1:run:n1:1:beef', lineage: PROMOTED }], [REPLICA]],
  ['with an epoch of an earlier version', [{ ...OLDER, lineage: PROMOTED }], [undefined]],
  [
    'with an epoch of an earlier version that was a replica between two looks',
    [OLDER, { ...OLDER, lineage: PROMOTED }, { ...OLDER, lineage: PROMOTED }],
    [undefined, REPLICA, REPLICA],
  ],
  ['that is enrolled anew', [{}, { epoch: undefined }, LATER], [undefined, undefined, undefined]],
  ['that shows the epoch of before again', [{}, LATER, {}], [undefined, undefined, SET_BACK]],
  [
    'that shows an epoch again that was taken away',
    [{}, { epoch: undefined }, {}],
    [undefined, undefined, SET_BACK],
  ],
  [
    'that was restarted with the data of before',
    [{}, LATER, { runId: 'run2' }, { runId: 'run2', role: 'slave' }],
    [undefined, undefined, undefined, undefined],
  ],
  [
    'that evicted since it was restarted with the data of before',
    [{ runId: 'run2', evictedKeys: 1 }],
    [EVICTED],
  ],
  ['that evicted before, and has no epoch', [{ epoch: undefined, evictedKeys: 1 }], [undefined]],
  ['that evicted before', [{ evictedKeys: 7 }, { evictedKeys: 7 }], [undefined, undefined]],
  ['that evicts', [{ evictedKeys: 7 }, { evictedKeys: 8 }], [undefined, EVICTED]],
  [
    'whose counters were reset',
    [{ evictedKeys: 7 }, { evictedKeys: 0 }, {}],
    [undefined, undefined, undefined],
  ],
  ['that evicts after a reset', [{ evictedKeys: 7 }, { evictedKeys: 3 }], [undefined, EVICTED]],
  [
    'that evicts some time after a reset',
    [{ evictedKeys: 7 }, { evictedKeys: 0 }, { evictedKeys: 3 }],
    [undefined, undefined, EVICTED],
  ],
])('a node %s', (_, looks, why) => {
  expect(reasons(...looks)).toEqual(why)
})

test('an epoch is known since it was first seen', () => {
  const watch = new EpochWatch()
  expect(watch.seen).toBeUndefined()
  watch.saw(SHOWN, 5)
  watch.saw(SHOWN, 6)
  expect(watch.seen).toMatchObject({ epoch: SHOWN.epoch, sinceMonoMs: 5 })
  watch.saw({ ...SHOWN, ...LATER }, 7)
  expect(watch.seen).toMatchObject({ ...LATER, sinceMonoMs: 7 })
})
