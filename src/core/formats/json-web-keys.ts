/**
 * A JSON Web Key Set (RFC 7517): the public keys with which an issuer's tokens are verified.
 *
 * Owns what is accepted as one, from a file and from an address alike. A set with a private or symmetric key is refused: whoever
 * can read it could make tokens, and it was not meant to be handed out.
 */

export type JsonWebKeys = {
  readonly keys: readonly (Readonly<Record<string, unknown>> & { readonly kty: string })[]
}

type ParsedKeys =
  | { readonly kind: 'keys'; readonly keys: JsonWebKeys }
  /** Completes "it …". */
  | { readonly kind: 'refused'; readonly reason: string }

/** An issuer publishes a handful. */
const KEYS_MAX = 100

const PUBLIC_KEY_TYPES: readonly unknown[] = ['RSA', 'EC', 'OKP']

export function parseJsonWebKeys(text: string): ParsedKeys {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return refused('is not JSON')
  }
  const keys = (parsed as { readonly keys?: unknown } | null)?.keys
  if (!Array.isArray(keys)) return refused('has no list "keys" (RFC 7517)')
  if (keys.length === 0 || keys.length > KEYS_MAX)
    return refused(`has ${keys.length} keys, and 1 to ${KEYS_MAX} are accepted`)
  for (const key of keys) {
    if (typeof key !== 'object' || key === null) return refused('has a key that is no object')
    if ('d' in key || 'k' in key || key.kty === 'oct')
      return refused('has a private or symmetric key, and only public ones are accepted')
  }
  // Types of later standards are skipped, as RFC 7517 asks.
  const known = keys.filter(({ kty }) => PUBLIC_KEY_TYPES.includes(kty))
  return known.length === 0
    ? refused('has no key of type RSA, EC or OKP')
    : { kind: 'keys', keys: { keys: known } }
}

function refused(reason: string): ParsedKeys {
  return { kind: 'refused', reason }
}
