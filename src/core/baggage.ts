/**
 * Baggage in transit, member by member, so that what others put into it stays byte for byte.
 *
 * Source: W3C Baggage, https://www.w3.org/TR/baggage/ (section 3.3: at most 8192 bytes altogether).
 */

const OURS = 'fencepost.'
export const BAGGAGE_BYTES_MAX = 8_192

/** Inbound members without those that only we may set, then our own; ours are left out where they do not fit. */
export function mergedBaggage(inbound: readonly string[], own: Readonly<Record<string, string>>): string {
  const theirs = inbound
    .flatMap((line) => line.split(','))
    .map((member) => member.trim())
    .filter((member) => member !== '' && !member.toLowerCase().startsWith(OURS))
  const ours = Object.entries(own).map(([name, value]) => `${OURS}${name}=${value}`)
  const merged = [...theirs, ...ours].join(',')
  return Buffer.byteLength(merged) <= BAGGAGE_BYTES_MAX ? merged : theirs.join(',')
}
