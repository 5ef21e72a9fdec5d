/** Fetches a key set over HTTP: no redirects, a bounded time, a bounded size. */

/** Some hundred keys with their certificates. */
const BYTES_MAX = 512 * 1024
const GIVE_UP_AFTER_MS = 5_000

/** @throws with a sentence without the address: whoever logs it names that beside it */
export async function fetchKeys(url: string): Promise<string> {
  const response = await fetch(url, {
    headers: { accept: 'application/jwk-set+json, application/json' },
    // A redirect is an answer like any other that is not 200, and told as one.
    redirect: 'manual',
    signal: AbortSignal.timeout(GIVE_UP_AFTER_MS),
  }).catch((cause: Error) => {
    throw new Error(
      `the address could not be reached (${(cause.cause as NodeJS.ErrnoException)?.code ?? cause.name})`,
    )
  })
  if (response.status !== 200) {
    await response.body?.cancel()
    throw new Error(`the address answered ${response.status}, and 200 is expected`)
  }
  const parts: Uint8Array[] = []
  let bytes = 0
  for await (const part of response.body ?? []) {
    bytes += part.length
    if (bytes > BYTES_MAX) throw new Error(`the answer is larger than ${BYTES_MAX} bytes, which is the limit`)
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}
