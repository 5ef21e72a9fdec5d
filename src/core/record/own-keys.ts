/** Which keys of records are for our own use, and no request's: those that no identity can have (`core/request/identity.ts`). */

export function isOurs(key: string): boolean {
  return /^dedup:%?:/.test(key)
}
