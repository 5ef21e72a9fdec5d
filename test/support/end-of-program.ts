/**
 * How a program of the tests ends: by itself, at once, and never silently kept alive by something that it left open.
 */

/** The exit code where all went well and the process could not end. */
const COULD_NOT_END = 3

/**
 * To be called when everything is reported and disposed of, and `process.exitCode` is set.
 *
 * A handle that keeps the process alive now is a defect: it is named, and ends the process with 3 where it would have ended with 0.
 * With none the process exits at once, because Node can spin for ever in its own cleanup of handles (nodejs/node#47748), where no
 * timer fires any more.
 */
export function endInTime(withinMs = 10_000): void {
  process.once('beforeExit', (code) => process.exit(code))
  setTimeout(() => {
    console.error(`still open ${withinMs} ms after the report:`, process.getActiveResourcesInfo())
    process.exit(process.exitCode === 0 ? COULD_NOT_END : process.exitCode)
  }, withinMs).unref()
}
