/**
 * A flood of synthetic duplicates against the reservation API of one or several sidecars, and what it proves.
 *
 * A volley is one made-up value, reserved by several sessions at the same moment. Exactly one of them must get it: none
 * is a false positive (a first request was taken for a duplicate), more than one a false negative (a duplicate would
 * have been executed). Nothing reaches an application: the session that got the value releases it.
 *
 * Owns volleys and their verdict. `cli/probe.ts` decides how often, and how to show it.
 */

export const RESULTS = ['ok', 'false_positive', 'false_negative', 'error'] as const
export type Result = (typeof RESULTS)[number]

/** The result of one copy of a volley. */
export type Copy = 'reserved' | 'refused' | 'failed'

export type FloodOptions = {
  /** Of reservation APIs; copies are sent to them in turn. */
  readonly urls: readonly string[]
  readonly copies: number
  readonly token: string | undefined
  /** Distinguishes the values of this run from those of any other. */
  readonly run: string
  readonly timeoutMs: number
}

export type Volley = { readonly result: Result; readonly durationMs: number; readonly detail?: string }

/** One granted copy and no failed one is ok. Two granted copies are wrong whatever the others got. */
export function judge(copies: readonly Copy[]): Result {
  const reserved = copies.filter((copy) => copy === 'reserved').length
  if (reserved > 1) return 'false_negative'
  if (copies.includes('failed')) return 'error'
  return reserved === 1 ? 'ok' : 'false_positive'
}

export async function volley(number: number, options: FloodOptions): Promise<Volley> {
  const startedMs = performance.now()
  const value = `__probe__:${options.run}:${number}`
  const results = await Promise.all(
    Array.from({ length: options.copies }, (_, copy) => reserve(value, number + copy, copy, options)),
  )
  const durationMs = performance.now() - startedMs
  await Promise.all(results.map((one) => one.giveBack?.()))
  const detail = results.find(({ detail: why }) => why !== undefined)?.detail
  return {
    result: judge(results.map(({ copy }) => copy)),
    durationMs,
    ...(detail === undefined ? {} : { detail }),
  }
}

type CopyResult = {
  readonly copy: Copy
  readonly detail?: string
  readonly giveBack?: () => Promise<unknown>
}

async function reserve(
  value: string,
  turn: number,
  copy: number,
  options: FloodOptions,
): Promise<CopyResult> {
  const { urls, token, run, timeoutMs } = options
  const url = urls[turn % urls.length] as string
  const call = (path: string, body: unknown) =>
    fetch(`${url}${path}`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(timeoutMs),
    })
  try {
    const response = await call('/v1/reservations', {
      session_id: `${run}-${copy}`,
      reserved_value: value,
    })
    const body = (await response.json()) as { reservation_id?: string; fencing_token?: unknown }
    if (response.status === 409) return { copy: 'refused' }
    if (response.status !== 201) return { copy: 'failed', detail: `${url} answered ${response.status}` }
    const release = { fencing_token: body.fencing_token }
    return {
      copy: 'reserved',
      // If the release fails, the lease runs out.
      giveBack: () => call(`/v1/reservations/${body.reservation_id}/release`, release).catch(() => {}),
    }
  } catch (cause) {
    return { copy: 'failed', detail: `${url}: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
}
