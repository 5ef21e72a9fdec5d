/**
 * Where the processor time of a request goes, by what it is for: the samples of a CPU profile, each in the category of the innermost
 * frame that has one.
 *
 * Owns the categories and the sums. A frame of Node or V8 belongs to whoever called it; what nobody of ours called, and what V8 does
 * without JavaScript, are categories of their own, so that nothing is lost.
 */
import type { Profiler } from 'node:inspector'

/** In the order in which a request passes them, then what it does not pass. */
export const CATEGORIES = [
  'parsing and arrival',
  'fingerprint and identity',
  'claim rounds',
  "nodes' client",
  'upstream call',
  'completion',
  'answer',
  'telemetry',
  'writes to nodes',
  'writes to the application',
  'writes to clients',
  'other of the sidecar',
  'event loop, timers and streams of Node',
  'native code: reads, HTTP parser, system calls of the loop',
  'garbage collection',
] as const
export type Category = (typeof CATEGORIES)[number]

/** By the place of a file, the first that matches: `src/…`, or a package in `node_modules/…`. */
const BY_PLACE: readonly (readonly [RegExp, Category])[] = [
  [/^src\/(core\/(request|formats)\/|http\/request\/identify)/, 'fingerprint and identity'],
  [
    /^src\/core\/(settle|claims\/(recording|outcome-memory|write-back)|routes\/(settlement|redaction))/,
    'completion',
  ],
  [/^src\/(observe\/|app\/(telemetry|quorum-watch|readiness)|core\/health\/|core\/events)/, 'telemetry'],
  [/^src\/(core\/(claims|quorum|nodes|record|reservations|deduplicate|ports)|redlock)/, 'claim rounds'],
  [/^src\/redis\//, "nodes' client"],
  [/^src\/(upstream\/|http\/proxy\/forwarding|core\/header-list)/, 'upstream call'],
  [/^src\/http\/(server\/send|message\/answer|request\/(outcome-answers|decided-event))/, 'answer'],
  [/^src\/http\//, 'parsing and arrival'],
  [/^src\//, 'other of the sidecar'],
  [/^node_modules\/redlock\//, 'claim rounds'],
  [/^node_modules\/(@?ioredis|redis-)/, "nodes' client"],
  [/^node_modules\/undici\//, 'upstream call'],
  [/^node_modules\/(prom-client|pino|@opentelemetry)/, 'telemetry'],
  [/^node_modules\/(fastify|@fastify|find-my-way|avvio)/, 'parsing and arrival'],
  [/^node:(_http_|internal\/http)/, 'parsing and arrival'],
]

/** Native functions that write to a socket (`lib/internal/stream_base_commons.js`). */
const WRITES: ReadonlySet<string> = new Set([
  'writeUtf8String',
  'writeLatin1String',
  'writeAsciiString',
  'writeBuffer',
  'writev',
])
const WRITES_TO: Partial<Record<Category, Category>> = {
  "nodes' client": 'writes to nodes',
  'claim rounds': 'writes to nodes',
  'upstream call': 'writes to the application',
  answer: 'writes to clients',
  'parsing and arrival': 'writes to clients',
}

export type Frame = { readonly name: string; readonly place: string }

/**
 * @param stack innermost frame first
 * @returns undefined while the thread waits
 */
export function categoryOf(stack: readonly Frame[]): Category | undefined {
  const [leaf] = stack
  if (leaf === undefined || leaf.name === '(idle)') return undefined
  if (leaf.name === '(garbage collector)') return 'garbage collection'
  if (leaf.name === '(program)') return 'native code: reads, HTTP parser, system calls of the loop'
  for (const { place } of stack) {
    const owner = BY_PLACE.find(([pattern]) => pattern.test(place))?.[1]
    if (owner === undefined) continue
    return WRITES.has(leaf.name) ? (WRITES_TO[owner] ?? owner) : owner
  }
  return 'event loop, timers and streams of Node'
}

/** Microseconds of the profile, category by category. */
export function attribute(
  { nodes, samples = [], timeDeltas = [] }: Profiler.Profile,
  placeOf: (call: {
    readonly url: string
    readonly lineNumber: number
    readonly columnNumber: number
  }) => string,
): ReadonlyMap<Category, number> {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parentOf = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id])))
  const categories = new Map<number, Category | undefined>()
  for (const { id } of nodes) {
    const stack: Frame[] = []
    for (let at: number | undefined = id; at !== undefined; at = parentOf.get(at)) {
      const call = byId.get(at)!.callFrame
      stack.push({ name: call.functionName, place: placeOf(call) })
    }
    categories.set(id, categoryOf(stack))
  }
  const micros = new Map<Category, number>(CATEGORIES.map((category) => [category, 0]))
  for (const [index, id] of samples.entries()) {
    const category = categories.get(id)
    // V8 gives a sample the time since the one before it: the time until this one.
    if (category !== undefined)
      micros.set(category, micros.get(category)! + Math.max(0, timeDeltas[index] ?? 0))
  }
  return micros
}

export type Attribution = {
  readonly rows: readonly { readonly name: string; readonly micros: number; readonly share: number }[]
  /** Of the kernel: what the rows must add up to. */
  readonly wholeMicros: number
  readonly remainderMicros: number
  readonly addsUp: boolean
}

/** The rows may miss so much of the whole, in either direction. */
export const REMAINDER_SHARE_MAX = 0.1

/** @param parts microseconds a request, besides the whole as the kernel counts it */
export function attributionOf(parts: ReadonlyMap<string, number>, wholeMicros: number): Attribution {
  const sum = [...parts.values()].reduce((total, micros) => total + micros, 0)
  const remainderMicros = wholeMicros - sum
  return {
    rows: [...parts].map(([name, micros]) => ({ name, micros, share: micros / wholeMicros })),
    wholeMicros,
    remainderMicros,
    addsUp: Math.abs(remainderMicros) <= wholeMicros * REMAINDER_SHARE_MAX,
  }
}
