/** Why a call got no answer, in words: `fetch` says only "fetch failed", and keeps the reason in its cause. */
export function whyNoAnswer(error: unknown): string {
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  if (!(reason instanceof Error)) return String(reason)
  // Of an address with several numbers each was tried: the error of all has a code, and no message.
  return reason.message || String((reason as { code?: string }).code ?? reason.name)
}
