/**
 * The rules with every duration divided, so that an incident that would take an hour can be played in a minute.
 *
 * A transformation of the one rules file, never a copy of it. What is divided: ranges (`[5m]`), `offset`, `for`, and the
 * age of a restarted node, which is compared with a number of seconds. Thresholds stay as they are, and so does what is
 * per minute by its meaning.
 */

const SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const

/** @param divisor 30: five minutes become ten seconds */
export function shortenedRules(rules: string, divisor: number): string {
  const divided = (duration: string) => {
    const [, count = '0', unit = 's'] = /^(\d+)([smhd])$/.exec(duration) ?? []
    const seconds = (Number(count) * SECONDS[unit as keyof typeof SECONDS]) / divisor
    return seconds === 0 ? '0s' : `${Math.max(1, Math.round(seconds))}s`
  }
  return rules
    .replaceAll(
      /\[(\d+[smhd])(?::(\d+[smhd]))?\]/g,
      (_, duration: string, step?: string) =>
        `[${divided(duration)}${step === undefined ? '' : `:${divided(step)}`}]`,
    )
    .replaceAll(/offset (\d+[smhd])/g, (_, duration: string) => `offset ${divided(duration)}`)
    .replaceAll(/^( +for: )(\d+[smhd])$/gm, (_, key: string, duration: string) => key + divided(duration))
    .replaceAll('start_timestamp_seconds) < 90', `start_timestamp_seconds) < ${RESTART_SECONDS}`)
}

/** Redis tells its age in whole seconds: less than a few of them can't be seen. */
export const RESTART_SECONDS = 8
