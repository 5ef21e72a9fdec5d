/**
 * A map for what comes and goes with each request.
 *
 * V8 moves the entries of a `Map` to a new table once enough were added and deleted, and the old table, with all that stood in it then, keeps
 * pointing to the new one. Once one such table is old, the collections of young objects keep all that follow it, and what these hold: with 32 requests in
 * flight that was everything that ever stood in the map, until the next full collection (docs/internals/performance.md).
 *
 * Owns that such a table holds nothing but keys: each value stands in a box, which is emptied when it is deleted.
 */
export class ShortLivedMap<Key, Value extends object> {
  readonly #boxes = new Map<Key, { value: Value | undefined }>()

  get size(): number {
    return this.#boxes.size
  }

  get(key: Key): Value | undefined {
    return this.#boxes.get(key)?.value
  }

  set(key: Key, value: Value): void {
    const box = this.#boxes.get(key)
    if (box === undefined) this.#boxes.set(key, { value })
    else box.value = value
  }

  delete(key: Key): void {
    const box = this.#boxes.get(key)
    if (box === undefined) return
    box.value = undefined
    this.#boxes.delete(key)
  }

  /** The one that was added first. */
  get oldestKey(): Key | undefined {
    return this.#boxes.keys().next().value
  }

  *values(): Generator<Value> {
    for (const { value } of this.#boxes.values()) if (value !== undefined) yield value
  }
}
