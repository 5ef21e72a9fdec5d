/**
 * What the tests of a file share, or those of a `describe`: begun before the first of them, and ended after the last, in the
 * other order. Where only tests by a title run, nothing begins for the files that have none.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll } from 'vitest'

/** Stands for what `begin` returns, which is there when the tests run. */
export function duringTests<T extends AsyncDisposable | Disposable>(
  begin: () => Promise<T>,
  withinMs?: number,
): T {
  let begun: T | undefined
  beforeAll(async () => {
    begun = await begin()
  }, withinMs)
  afterAll(async () => {
    if (begun === undefined) return
    await (Symbol.asyncDispose in begun ? begun[Symbol.asyncDispose]() : begun[Symbol.dispose]())
  })
  const there = () => {
    if (begun === undefined) throw new Error('it has not begun: only tests and hooks may use it')
    return begun
  }
  return new Proxy({} as T, {
    get: (_, name) => {
      const value: unknown = Reflect.get(there(), name, there())
      return typeof value === 'function' ? value.bind(there()) : value
    },
    set: (_, name, value) => Reflect.set(there(), name, value, there()),
    has: (_, name) => Reflect.has(there(), name),
  })
}

/** What is put on it ends after the tests. */
export function stackOfTests(): AsyncDisposableStack {
  const stack = new AsyncDisposableStack()
  afterAll(() => stack.disposeAsync())
  return stack
}

/** A folder of theirs. */
export function folderOfTests(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `fencepost-${name}-`))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}
