/** Every case of a small alphabet, for tests that leave none out. */

export function sequences(alphabet: string, length: number): string[] {
  if (length === 0) return ['']
  const shorter = sequences(alphabet, length - 1)
  return [...alphabet].flatMap((letter) => shorter.map((rest) => letter + rest))
}

export function permutations(letters: string): string[] {
  if (letters.length <= 1) return [letters]
  return [...letters].flatMap((letter, at) =>
    permutations(letters.slice(0, at) + letters.slice(at + 1)).map((rest) => letter + rest),
  )
}
