/** Words that occur nowhere else, one per secret: found in an output, they name the leaked secret. */
const planted: string[] = []

export function canary(input: string): string {
  const word = `canary${planted.length}x${input.replace(/[^a-z0-9]/gi, '')}x5e4d3c2b1a`
  planted.push(word)
  return word
}

/** Which of them are in a text, also in base64, in hex, and cut short. */
export function found(text: string): string[] {
  const shapes = (word: string) => [
    word,
    Buffer.from(word).toString('base64').slice(2, -4),
    Buffer.from(word).toString('hex'),
    word.slice(0, 24),
  ]
  return planted.filter((word) =>
    shapes(word).some((shape) => text.toLowerCase().includes(shape.toLowerCase())),
  )
}
