/** A gauge, for code that names and sets it; only `metrics.ts` knows that prom-client makes it. */

export type Gauge<L extends string> = {
  set(value: number): void
  set(labels: Readonly<Record<L, string>>, value: number): void
  /** Ends all its series. */
  clear(): void
}

/** All series exist at once, at `value` (default 0). */
export type MakeGauge = <L extends string>(
  name: string,
  help: string,
  labels: Readonly<Record<L, readonly string[]>>,
  value?: number,
) => Gauge<L>
