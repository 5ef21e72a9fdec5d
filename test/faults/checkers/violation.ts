/** What a checker says of a history: the promise of the design that was broken, where, and what was seen. */
export type Violation = {
  /** Named as in docs/internals/faults.md. */
  readonly checker: string
  readonly key: string
  readonly detail: string
}

export function byKey<T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> {
  return Map.groupBy(items, keyOf)
}
