/**
 * Times as this client takes them: whole numbers of milliseconds. It refuses the others before a call is sent: a fraction
 * would come back as a refusal about a notation that the caller never wrote, and `30` may have been meant as seconds by
 * somebody who finds `lease` in the API.
 */

/** Timers of every runtime take it; some end at once where they get more than 24 days. */
export const A_DAY_MS = 86_400_000

/** As the API takes it: with its unit. */
export function duration(name: string, givenMs: number, leastMs: number, mostMs?: number): string {
  return `${wholeMs(name, givenMs, leastMs, mostMs)}ms`
}

export function wholeMs(
  name: string,
  givenMs: number,
  leastMs: number,
  mostMs = Number.MAX_SAFE_INTEGER,
): number {
  if (Number.isSafeInteger(givenMs) && givenMs >= leastMs && givenMs <= mostMs) return givenMs
  const given = typeof givenMs === 'number' ? String(givenMs) : JSON.stringify(givenMs)
  throw new TypeError(
    `${name} is ${given}; give a whole number of milliseconds from ${leastMs} to ${mostMs}: 30_000 is 30 seconds`,
  )
}
