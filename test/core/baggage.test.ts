import { expect, test } from 'vitest'
import { BAGGAGE_BYTES_MAX, mergedBaggage } from '../../src/core/tracing.ts'

const OWN = { lock_id: 'abc-1', key_hash: 'abc' }
const OURS = 'fencepost.lock_id=abc-1,fencepost.key_hash=abc'
const LONG = `a=${'x'.repeat(BAGGAGE_BYTES_MAX - 10)}`

test.each<[why: string, inbound: string[], own: Record<string, string>, merged: string]>([
  ['no member of ours or theirs', [], {}, ''],
  ['ours alone', [], OWN, OURS],
  ['theirs stay as they are, properties included', ['a=1;p=x, b=%20'], OWN, `a=1;p=x,b=%20,${OURS}`],
  ['several lines are one list', ['a=1', 'b=2'], {}, 'a=1,b=2'],
  [
    'a member that only we may set is replaced',
    ['fencepost.lock_id=forged,a=1,Fencepost.x=2'],
    OWN,
    `a=1,${OURS}`,
  ],
  ['a forged member is dropped without ours, too', ['fencepost.lock_id=forged'], {}, ''],
  ['ours give way where both do not fit', [LONG], OWN, LONG],
])('%s', (_, inbound, own, merged) => {
  expect(mergedBaggage(inbound, own)).toBe(merged)
})
