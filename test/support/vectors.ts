/** Reads the vectors of test/vectors/; their format is described there. */

import { readFileSync } from 'node:fs'

export type Vector<Input, Expected> = {
  readonly name: string
  readonly input: Input
  readonly expected: Expected
}

export function vectorsOf<Input, Expected>(file: string): readonly Vector<Input, Expected>[] {
  const url = new URL(`../vectors/${file}`, import.meta.url)
  return (JSON.parse(readFileSync(url, 'utf8')) as { vectors: Vector<Input, Expected>[] }).vectors
}
