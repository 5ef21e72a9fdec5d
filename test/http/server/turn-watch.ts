/**
 * Loaded into a sidecar before itself: measures the CPU time of each turn of its event loop, and writes the longest
 * ones to the file of `TURN_FILE` twice a second. SIGUSR2 forgets what was measured so far.
 *
 * CPU time and not duration: how long a turn takes on an idle machine, also measured on a busy one.
 */
import { renameSync, writeFileSync } from 'node:fs'
import process from 'node:process'

const LONGEST = 12
let turnsMs: number[] = []
let last = process.threadCpuUsage()

function turn(): void {
  const { user, system } = process.threadCpuUsage(last)
  turnsMs.push((user + system) / 1_000)
  last = process.threadCpuUsage()
  setImmediate(turn).unref()
}
turn()
process.on('SIGUSR2', () => {
  turnsMs = []
})
setInterval(() => {
  const longest = turnsMs.toSorted((a, b) => b - a).slice(0, LONGEST)
  const file = process.env.TURN_FILE
  if (file === undefined) return
  // A reader always sees a whole file.
  writeFileSync(`${file}.new`, JSON.stringify(longest))
  renameSync(`${file}.new`, file)
}, 500).unref()
