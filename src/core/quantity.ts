/**
 * Durations and sizes as people write them: a whole number and its unit, `30s`, `256KiB`.
 *
 * Owns the one notation of the configuration and of the reservation API. A bare number is refused: no reader should
 * have to know whether it means seconds.
 */

const DURATION_UNITS = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const

const SIZE_UNITS = [
  ['GiB', 2 ** 30],
  ['MiB', 2 ** 20],
  ['KiB', 2 ** 10],
  ['B', 1],
] as const

type Units = readonly (readonly [suffix: string, factor: number])[]

/** `500ms`, `30s`, `5m`, `24h`, `7d` → milliseconds; undefined for any other notation. */
export function parseDuration(text: string): number | undefined {
  return parseWithUnit(text, DURATION_UNITS)
}

export function printDuration(durationMs: number): string {
  return printWithUnit(durationMs, DURATION_UNITS, 's')
}

/** `512B`, `256KiB`, `1MiB`, `2GiB` → bytes; undefined for any other notation. */
export function parseSize(text: string): number | undefined {
  return parseWithUnit(text, SIZE_UNITS)
}

export function printSize(bytes: number): string {
  return printWithUnit(bytes, SIZE_UNITS, 'B')
}

function parseWithUnit(text: string, units: Units): number | undefined {
  const written = /^(0|[1-9][0-9]*)([A-Za-z]+)$/.exec(text)
  const factor = units.find(([suffix]) => suffix === written?.[2])?.[1]
  if (written === null || factor === undefined) return undefined
  const amount = Number(written[1]) * factor
  return Number.isSafeInteger(amount) ? amount : undefined
}

/** With the largest unit that divides it. */
function printWithUnit(amount: number, units: Units, zeroUnit: string): string {
  if (amount === 0) return `0${zeroUnit}`
  const [suffix, factor] = units.find(([, each]) => amount % each === 0) ?? ['', 1]
  return `${amount / factor}${suffix}`
}
