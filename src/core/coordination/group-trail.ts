/**
 * The trail over several quorum groups: written to one of them, read from all.
 *
 * An entry goes to the group that keeps its record, or, while that one is away, to another: what has to be said of a lost
 * group must not be lost with it. The same entry in two groups is one entry, because its id is the same.
 */

import type { Trail, TrailEntry } from './trail.ts'

/** @param placement the index of the group that keeps the record of a key */
export function trailOverGroups(trails: readonly Trail[], placement: (recordKey: string) => number): Trail {
  return {
    append: async (stream, entry) => {
      const own = placement(entry.recordKey)
      const inTurn = [...trails.slice(own), ...trails.slice(0, own)]
      for (const trail of inTurn) if (await trail.append(stream, entry)) return true
      return false
    },
    read: async (stream, limit) => {
      const entries = new Map<string, TrailEntry>()
      for (const read of await Promise.all(trails.map((trail) => trail.read(stream, limit)))) {
        // What a lost group knows can't be told from what is not there.
        if (read.kind === 'unavailable') return read
        for (const entry of read.entries) entries.set(entry.id, entry)
      }
      const inTime = [...entries.values()].sort((a, b) => a.atWallMs - b.atWallMs)
      return { kind: 'entries', entries: inTime.slice(-limit) }
    },
    remove: async (stream, id) =>
      (await Promise.all(trails.map((trail) => trail.remove(stream, id)))).every(Boolean),
  }
}
