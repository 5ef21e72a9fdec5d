/**
 * What the machine did beside a benchmark: processor time that its host gave to other guests, and time of programs that the benchmark
 * did not start. Linux only.
 */
import { readFileSync } from 'node:fs'
import { cpus, loadavg } from 'node:os'
import { serverTimes } from './server-times.ts'

/** Shares of all processor time of all cores. */
export type Beside = { readonly stolen: number; readonly others: number; readonly idle: number }

export type MachineWatch = { beside(): Beside }

/** Of proc_stat(5), all cores together. */
export type Ticks = {
  readonly idle: number
  readonly stolen: number
  readonly all: number
}

/** The kernel counts in hundredths of a second (USER_HZ). */
const TICK_MICROS = 10_000

export function watchMachine(): MachineWatch {
  const [ticks, own] = [ticksOf(readFileSync('/proc/stat', 'utf8')), ownMicros()]
  return {
    beside: () => besideOf(ticks, ticksOf(readFileSync('/proc/stat', 'utf8')), ownMicros() - own),
  }
}

/** @param ownMicros of the benchmark and all that it started, between the two */
export function besideOf(before: Ticks, after: Ticks, ownMicros: number): Beside {
  const all = after.all - before.all
  const share = (ticks: number) => (all === 0 ? 0 : Math.max(0, ticks) / all)
  const [stolen, idle] = [after.stolen - before.stolen, after.idle - before.idle]
  return {
    stolen: share(stolen),
    idle: share(idle),
    others: share(all - stolen - idle - ownMicros / TICK_MICROS),
  }
}

/** The first line: user, nice, system, idle, iowait, irq, softirq, steal. Time of guests is within that of the user. */
export function ticksOf(stat: string): Ticks {
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, stolen = 0] = (
    stat.split('\n', 1)[0] ?? ''
  )
    .split(/\s+/)
    .slice(1, 9)
    .map(Number)
  return {
    idle: idle + iowait,
    stolen,
    all: user + nice + system + idle + iowait + irq + softirq + stolen,
  }
}

export function besideText({ stolen, others, idle }: Beside): string {
  const percent = (share: number) => `${(share * 100).toFixed(1)} %`
  return `machine: ${cpus().length} cores, of whose time its host took ${percent(stolen)} (steal) and programs beside the benchmark ${percent(others)}; ${percent(idle)} was idle; load average ${loadavg()[0]?.toFixed(1)}`
}

/** Of this process, its ended children, and every process that descends from it. */
function ownMicros(): number {
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1)?.split(' ') ?? []
  const own = [11, 12, 13, 14].reduce((sum, at) => sum + Number(fields[at]), 0) * TICK_MICROS
  return [...serverTimes().values()].reduce((sum, micros) => sum + micros, own)
}
