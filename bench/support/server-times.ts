/**
 * How much processor time the servers that a benchmark started have used, by program. On a machine with other work, rates
 * tell little, and these times still tell what a message costs and which process would be full first.
 */
import { readdirSync, readFileSync } from 'node:fs'

type Listed = {
  readonly pid: number
  readonly parent: number
  readonly program: string
  readonly micros: number
}

/** The kernel counts in hundredths of a second (USER_HZ). */
const tickMicros = 10_000

/** Of all descendants of this process, their ended children included. */
export function serverTimes(): ReadonlyMap<string, number> {
  const all = readdirSync('/proc').flatMap(listed)
  const ours = new Set([process.pid])
  for (let before = 0; before < ours.size; ) {
    before = ours.size
    for (const { pid, parent } of all) if (ours.has(parent)) ours.add(pid)
  }
  const micros = new Map<string, number>()
  for (const one of all)
    if (one.pid !== process.pid && ours.has(one.pid))
      micros.set(one.program, (micros.get(one.program) ?? 0) + one.micros)
  return micros
}

function listed(name: string): Listed[] {
  if (!/^\d+$/.test(name)) return []
  try {
    // proc(5): pid (program) state ppid …; the program may have blanks.
    const [, program = '', rest = ''] =
      /^\d+ \((.*)\) (.*)$/s.exec(readFileSync(`/proc/${name}/stat`, 'utf8')) ?? []
    const fields = rest.split(' ')
    const ticks = [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0)
    return [{ pid: Number(name), parent: Number(fields[1]), program, micros: ticks * tickMicros }]
  } catch {
    // It has ended since.
    return []
  }
}
