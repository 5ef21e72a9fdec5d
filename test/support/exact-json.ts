/**
 * The meaning of a JSON text, independent of the code under test: numbers as fractions of big integers, objects as
 * sorted lists, strings by the parser of the platform. For texts that are valid JSON.
 */

export type Meaning = {
  /** Equal texts mean the same. */
  readonly text: string
  /** A reader with doubles and last-one-wins objects would see exactly this. */
  readonly lossless: boolean
}

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|[{}[\],:])/y

export function meaningOf(json: string): Meaning {
  TOKEN.lastIndex = 0
  let lossless = true
  let token = next()
  const meaning = value()
  return { text: meaning, lossless }

  function next(): string {
    return TOKEN.exec(json)?.[1] ?? ''
  }

  function take(): string {
    const taken = token
    token = next()
    return taken
  }

  function value(): string {
    const first = take()
    if (first === '{') return object()
    if (first === '[') return array()
    if (first.startsWith('"')) return string(first)
    return /^[-\d]/.test(first) ? number(first) : first
  }

  function object(): string {
    const members: [string, string][] = []
    while (token !== '}') {
      if (token === ',') take()
      const name = string(take())
      take()
      members.push([name, value()])
    }
    take()
    if (new Set(members.map(([name]) => name)).size < members.length) lossless = false
    return `{${members.sort(([a], [b]) => (a < b ? -1 : 1)).map((member) => member.join(':'))}}`
  }

  function array(): string {
    const items: string[] = []
    while (token !== ']') {
      if (token === ',') take()
      items.push(value())
    }
    take()
    return `[${items}]`
  }

  function string(text: string): string {
    const parsed = JSON.parse(text) as string
    if (!parsed.isWellFormed()) lossless = false
    return JSON.stringify(parsed)
  }

  function number(text: string): string {
    const exact = fractionOf(text)
    const double = Number(text)
    const kept = Number.isFinite(double) && fractionOf(String(double)) === exact && !Object.is(double, -0)
    if (!kept) lossless = false
    // The sign of zero counts, though the fraction is the same.
    return /^-[0.]+(?:e|$)/i.test(text) ? `-${exact}` : exact
  }
}

/** The reduced fraction of a decimal number. */
function fractionOf(text: string): string {
  const [, sign = '', integer = '', fraction = '', exponent = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? []
  const power = Number(exponent) - fraction.length
  const digits = BigInt(`${integer}${fraction}`)
  const top = power > 0 ? digits * 10n ** BigInt(power) : digits
  const bottom = power < 0 ? 10n ** BigInt(-power) : 1n
  const divisor = gcd(top, bottom)
  return `${top === 0n ? '' : sign}${top / divisor}/${bottom / divisor}`
}

function gcd(a: bigint, b: bigint): bigint {
  let [larger, smaller] = [a, b]
  while (smaller !== 0n) [larger, smaller] = [smaller, larger % smaller]
  return larger
}
