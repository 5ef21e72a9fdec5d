/** The verdict of a checker on a history: the broken promise, its place, and the evidence. */
export type Violation = {
  /** Named as in docs/internals/faults.md. */
  readonly checker: string
  readonly key: string
  readonly detail: string
}

export function byKey<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(items, keyOf)
}
