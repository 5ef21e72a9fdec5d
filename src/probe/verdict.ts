/**
 * What an answer to a synthetic request proves: pure rules, the same for every entry point.
 *
 * A volley is one made-up request, sent several times at the same moment, and then once more, and then with another
 * content. Of the first exactly one may be executed, the repetition must be answered as one, and the other content must
 * be noticed: refusals are right where they are expected.
 */

export const ENTRYPOINTS = [
  'api',
  'fingerprint',
  'proxy',
  'http_check',
  'ext_authz',
  'ext_authz_grpc',
  'ext_proc',
] as const
export type ProbedEntrypoint = (typeof ENTRYPOINTS)[number]

/** `one` of several copies at once is executed; a `replay` is answered as a duplicate; a `mismatch` is noticed. */
export const EXPECTATIONS = ['one', 'replay', 'mismatch'] as const
export type Expected = (typeof EXPECTATIONS)[number]

/**
 * `false_positive`: a request that nobody had sent was treated as a duplicate. `false_negative`: a duplicate was
 * executed, or not answered with what was recorded. `error`: the answer proves nothing.
 */
export const RESULTS = ['ok', 'false_positive', 'false_negative', 'error'] as const
export type Result = (typeof RESULTS)[number]

export type Finding = { readonly expected: Expected; readonly result: Result; readonly detail?: string }

/** The result of one copy of a volley. */
export type Copy = 'granted' | 'refused' | 'failed'

export type Volley = {
  readonly entrypoint: ProbedEntrypoint
  /** Not empty, in the order of the questions: what follows a wrong answer is not asked. */
  readonly findings: readonly Finding[]
  readonly requests: number
  /** Of the copies that were sent at once. */
  readonly durationMs: number
}

/** One granted copy and no failed one is ok. Two granted copies are wrong whatever the others got. */
export function judge(copies: readonly Copy[]): Result {
  const granted = copies.filter((copy) => copy === 'granted').length
  if (granted > 1) return 'false_negative'
  if (copies.includes('failed')) return 'error'
  return granted === 1 ? 'ok' : 'false_positive'
}

/** What a copy behind the proxy got; `executions` counted by the application behind it. */
export type ProxiedCopies = {
  readonly copies: readonly Copy[]
  readonly executions: number
  /** Different bodies among the answers that show an outcome. */
  readonly bodies: number
}

/**
 * Behind the proxy the application itself counts. An answer that says `created` without an execution there is no proof
 * against the sidecar: it has another application.
 */
export function judgeProxied({ copies, executions, bodies }: ProxiedCopies): Result {
  if (executions > 1 || bodies > 1) return 'false_negative'
  if (copies.includes('failed')) return 'error'
  if (executions === 1) return 'ok'
  return copies.includes('granted') ? 'error' : 'false_positive'
}

const WORST_FIRST: readonly Result[] = ['false_negative', 'false_positive', 'error', 'ok']

/** The worst of its findings. */
export function resultOf({ findings }: Pick<Volley, 'findings'>): Result {
  const found = new Set(findings.map(({ result }) => result))
  return WORST_FIRST.find((result) => found.has(result)) ?? 'error'
}

export function finding(expected: Expected, result: Result, detail?: string): Finding {
  return { expected, result, ...(detail === undefined || result === 'ok' ? {} : { detail }) }
}

/** For the log of a probe: what was not right, each by itself. */
export function wrongOnes({ entrypoint, findings }: Volley): (Finding & Pick<Volley, 'entrypoint'>)[] {
  return findings.filter(({ result }) => result !== 'ok').map((one) => ({ entrypoint, ...one }))
}
