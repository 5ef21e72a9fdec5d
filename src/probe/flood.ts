/**
 * A flood of synthetic duplicates against the reservation API of one or several sidecars, and what it proves.
 *
 * A volley is one made-up value, reserved by several sessions at the same moment. Exactly one of them must get it: none is
 * a false positive (a request that nobody had sent was taken for a duplicate), more than one a false negative (a duplicate
 * would have been carried out). Nothing reaches an application: whoever got the value gives it back.
 *
 * Owns volleys and their judgement. How often, and how it is shown, is decided elsewhere.
 */

export const RESULTS = ['ok', 'false_positive', 'false_negative', 'error'] as const
export type Result = (typeof RESULTS)[number]

/** What one copy of a volley was told. */
export type Copy = 'reserved' | 'refused' | 'failed'

export type FloodOptions = {
  /** Of reservation APIs; copies go to them in turn. */
  readonly urls: readonly string[]
  readonly copies: number
  readonly token: string | undefined
  /** Makes the values of this run differ from those of any other. */
  readonly run: string
  readonly timeoutMs: number
}

export type Volley = { readonly result: Result; readonly durationMs: number; readonly detail?: string }

/** One granted and nobody unheard is ok. Two granted are wrong whatever became of the others. */
export function judge(copies: readonly Copy[]): Result {
  const reserved = copies.filter((copy) => copy === 'reserved').length
  if (reserved > 1) return 'false_negative'
  if (copies.includes('failed')) return 'error'
  return reserved === 1 ? 'ok' : 'false_positive'
}

export async function volley(number: number, options: FloodOptions): Promise<Volley> {
  const startedMs = performance.now()
  const value = `__probe__:${options.run}:${number}`
  const told = await Promise.all(
    Array.from({ length: options.copies }, (_, copy) => reserve(value, number + copy, copy, options)),
  )
  const durationMs = performance.now() - startedMs
  await Promise.all(told.map((one) => one.giveBack?.()))
  const detail = told.find(({ detail: why }) => why !== undefined)?.detail
  return {
    result: judge(told.map(({ copy }) => copy)),
    durationMs,
    ...(detail === undefined ? {} : { detail }),
  }
}

type Told = { readonly copy: Copy; readonly detail?: string; readonly giveBack?: () => Promise<unknown> }

async function reserve(value: string, turn: number, copy: number, options: FloodOptions): Promise<Told> {
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
      // Where it can't be given back its lease ends by itself.
      giveBack: () => call(`/v1/reservations/${body.reservation_id}/release`, release).catch(() => {}),
    }
  } catch (cause) {
    return { copy: 'failed', detail: `${url}: ${cause instanceof Error ? cause.message : String(cause)}` }
  }
}
