/** Lines inside this process: where the nodes are embedded, nobody else stands in them. */

import { type Line, type Lines, standIn } from '../core/claims/line.ts'
import type { Clock } from '../core/ports.ts'

export function createEmbeddedLines(clock: Clock): Lines {
  const lines = new Map<string, Line>()
  return {
    nodeCount: 1,
    stand: (key, standing) => {
      const { line, answer } = standIn(lines.get(key), standing, Math.floor(clock.monoMs()))
      if (line === undefined) lines.delete(key)
      else lines.set(key, line)
      return Promise.resolve([answer])
    },
  }
}
