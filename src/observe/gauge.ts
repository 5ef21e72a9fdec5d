/** What a gauge is to those who name and set it; only `metrics.ts` knows that prom-client makes it. */

export type Gauge<L extends string> = {
  set(value: number): void
  set(labels: Readonly<Record<L, string>>, value: number): void
}

/** Every series of it exists at once, at `value` (0 where none is given). */
export type MakeGauge = <L extends string>(
  name: string,
  help: string,
  labels: Readonly<Record<L, readonly string[]>>,
  value?: number,
) => Gauge<L>
