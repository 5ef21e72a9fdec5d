/**
 * Where the lines of the log go, for as long as something takes them.
 *
 * Owns that a log which nobody takes costs lines, and neither a request nor the process nor its memory: the disk of a file may be full, and
 * the reader of a pipe may stand still. The lost lines are counted, and the log says their number once it is taken again.
 */

export type LogTarget = {
  /** @throws where this line was not taken; the next one may be */
  write(line: string): unknown
  /** What a reader has not taken yet; undefined where nothing waits. */
  readonly writableLength?: number
  /** Whether it is over for good. */
  readonly destroyed?: boolean
}

/** Some two thousand lines: more than a reader that lives falls behind, and little beside the memory of a container. */
const WAITING_BYTES_MAX = 1024 * 1024

export type LogOutputOptions = {
  /** Of each line that was not taken. */
  readonly onLost: () => void
  /** After the first line that was taken again: so many before it were not. */
  readonly onTakenAgain: (lost: number) => void
}

export function createLogOutput(target: LogTarget, { onLost, onTakenAgain }: LogOutputOptions) {
  let lost = 0

  function isTaken(line: string): boolean {
    // Once lines were lost the reader has to catch up first: else every second line would say that one was lost.
    const most = lost > 0 ? WAITING_BYTES_MAX / 2 : WAITING_BYTES_MAX
    if (target.destroyed === true || (target.writableLength ?? 0) > most) return false
    try {
      target.write(line)
      return true
    } catch {
      // There is no log to say it in; the number of lost lines says it later.
      return false
    }
  }

  function write(line: string): void {
    if (!isTaken(line)) {
      lost += 1
      onLost()
      return
    }
    if (lost === 0) return
    const before = lost
    lost = 0
    // It writes a line itself; where that one is lost, all of them are still to be told.
    onTakenAgain(before)
    if (lost > 0) lost += before
  }

  return { write }
}
