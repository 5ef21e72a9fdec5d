/**
 * Verifies bearer tokens with jose: the only file that knows what jose answers.
 *
 * Owns the options of each check, written out, and the words for each refusal. Algorithms are those of the route and never the
 * token's own choice: `none` and signatures with a shared secret are among none of them, so a public key is never taken for a
 * secret. `exp` is demanded: a token that never ends would identify its thief for ever.
 */

import { decodeProtectedHeader, errors, type JWTVerifyGetKey, type JWTVerifyOptions, jwtVerify } from 'jose'
import type { Clock } from '../core/clock.ts'
import type { TokenFault, VerifyToken } from '../core/request/principal.ts'
import type { VerifiedJwt } from '../core/routes/route.ts'
import type { KeySet } from './key-set.ts'

type Verdict = Awaited<ReturnType<VerifyToken>>

const VERIFIED: Verdict = { kind: 'verified' }

export function createTokenVerifier(
  keySetOf: (rules: VerifiedJwt) => KeySet,
  clock: Pick<Clock, 'wallMs'>,
): VerifyToken {
  return async (token, rules) => {
    const keySet = keySetOf(rules)
    const keys = await keySet.current()
    if (keys === undefined) return NO_KEYS
    const options = optionsFor(rules, clock)
    const first = await verdictOf(token, keys, options)
    if (first !== 'unknown_key') return first
    const others = await keySet.after(keys)
    if (others === 'unknown') return NOT_ASKED
    const second = others === 'none' ? 'unknown_key' : await verdictOf(token, others, options)
    return second === 'unknown_key' ? refused('is signed with a key that is none of its issuer’s') : second
  }
}

function optionsFor(
  { issuer, audience, algorithms, toleranceMs }: VerifiedJwt,
  clock: Pick<Clock, 'wallMs'>,
): JWTVerifyOptions {
  return {
    algorithms: [...algorithms],
    issuer,
    ...(audience === 'any' ? {} : { audience: [...audience] }),
    clockTolerance: toleranceMs / 1_000,
    requiredClaims: ['exp'],
    currentDate: new Date(clock.wallMs()),
  }
}

async function verdictOf(
  token: string,
  keys: JWTVerifyGetKey,
  options: JWTVerifyOptions,
): Promise<Verdict | 'unknown_key'> {
  try {
    await jwtVerify(token, keys, options)
    return VERIFIED
  } catch (cause) {
    if (cause instanceof errors.JWKSMultipleMatchingKeys) return verdictOfEach(token, cause, options)
    // Of an issuer with one key that no token names: it may have published another one since.
    const isUnnamed = isForged(cause) && decodeProtectedHeader(token).kid === undefined
    return isUnnamed ? 'unknown_key' : faultOf(cause)
  }
}

/** A token that does not name its key, from an issuer with several: one of them has to fit. */
async function verdictOfEach(
  token: string,
  candidates: errors.JWKSMultipleMatchingKeys,
  options: JWTVerifyOptions,
): Promise<Verdict | 'unknown_key'> {
  for await (const key of candidates) {
    try {
      await jwtVerify(token, key, options)
      return VERIFIED
    } catch (cause) {
      if (!isForged(cause)) return faultOf(cause)
    }
  }
  // The key that fits may have been published since.
  return 'unknown_key'
}

function faultOf(cause: unknown): TokenFault | 'unknown_key' {
  if (cause instanceof errors.JWKSNoMatchingKey) return 'unknown_key'
  if (cause instanceof errors.JWTExpired) return refused('is expired')
  if (cause instanceof errors.JWTClaimValidationFailed) return refused(reasonOf(cause))
  if (isForged(cause)) return refused('has a signature that is not its issuer’s')
  if (cause instanceof errors.JOSEAlgNotAllowed)
    return refused('is signed with an algorithm that this route does not accept')
  // Whatever else jose can not verify is not verified; its message may quote the token.
  return refused('is malformed')
}

function isForged(cause: unknown): boolean {
  return cause instanceof errors.JWSSignatureVerificationFailed
}

function reasonOf({ claim, reason }: errors.JWTClaimValidationFailed): string {
  if (reason === 'missing') return `has no claim ${claim}`
  switch (claim) {
    case 'iss':
      return 'is of another issuer'
    case 'aud':
      return 'is for another audience'
    case 'nbf':
      return 'is not valid yet'
    default:
      return `has a claim ${claim} that is not accepted`
  }
}

const NO_KEYS: TokenFault = {
  kind: 'token_unverifiable',
  detail: 'The keys of the issuer of bearer tokens could not be fetched yet, or are too old.',
}

const NOT_ASKED: TokenFault = {
  kind: 'token_unverifiable',
  detail:
    'The bearer token is signed with a key that is not known here, and its issuer does not answer whether it is a new one.',
}

function refused(reason: string): TokenFault {
  return { kind: 'token_refused', reason }
}
