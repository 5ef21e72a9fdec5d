/**
 * JSON numbers as exact decimals, and whether a double keeps one.
 *
 * Owns the decision "lossless": the double nearest to the number, printed as the shortest text that reads back as that
 * double, is the same decimal value again. So 0.1, 1.0, 1e0 and 1.50 are; 9007199254740993, 1e400 and the 55
 * digits of what a double makes of 0.1 are not. Compared on the digits, never by another double.
 *
 * Minus zero is refused. RFC 8785 prints it as 0, but a double, and so an application, distinguishes the two.
 *
 * Source: RFC 8785, section 3.2.2.3 and appendix B; ECMA-262, Number::toString.
 */

/** `digits` × 10^`exponent`, digits without zeros at either end; no digits at all: zero. */
export type Decimal = { readonly negative: boolean; readonly digits: string; readonly exponent: number }

export type CanonicalNumber =
  | { readonly kind: 'lossless'; readonly text: string }
  | { readonly kind: 'lossy'; readonly reason: 'negative_zero' | 'number_not_exact' }

/** @param text a number in the grammar of JSON */
export function decimalOf(text: string): Decimal {
  const negative = text.startsWith('-')
  const exponentAt = text.search(/[eE]/)
  const mantissa = text.slice(negative ? 1 : 0, exponentAt === -1 ? text.length : exponentAt)
  const pointAt = mantissa.indexOf('.')
  const fraction = pointAt === -1 ? '' : mantissa.slice(pointAt + 1)
  const all = (pointAt === -1 ? mantissa : mantissa.slice(0, pointAt)) + fraction

  let from = 0
  while (from < all.length && all.charCodeAt(from) === 0x30) from++
  let to = all.length
  while (to > from && all.charCodeAt(to - 1) === 0x30) to--
  if (from === to) return { negative, digits: '', exponent: 0 }
  // An exponent above 2^53 is rounded here. No double is near such a value, so none passes for lossless.
  const written = exponentAt === -1 ? 0 : Number(text.slice(exponentAt + 1))
  return { negative, digits: all.slice(from, to), exponent: written - fraction.length + (all.length - to) }
}

/** @param text a number in the grammar of JSON */
export function canonicalNumber(text: string): CanonicalNumber {
  const shortest = String(Number(text))
  // The common case, without comparing digits.
  if (shortest === text) return { kind: 'lossless', text }
  const exact = decimalOf(text)
  if (exact.digits === '')
    return exact.negative ? { kind: 'lossy', reason: 'negative_zero' } : { kind: 'lossless', text: '0' }
  // An overflow prints "Infinity", an underflow "0": other digits, so not lossless.
  const kept = decimalOf(shortest)
  return kept.digits === exact.digits && kept.exponent === exact.exponent
    ? { kind: 'lossless', text: shortest }
    : { kind: 'lossy', reason: 'number_not_exact' }
}
