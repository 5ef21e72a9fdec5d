/** The JSON Schema of settings that are written as one text, separated by commas, or as a list. */

/**
 * @param entry a regular expression that Go reads, too: Helm validates by the same schema
 * @param words that stand for a whole list
 */
export function listedSchema(
  entry: string,
  limits: { readonly min: number; readonly max: number },
  words: readonly string[] = [],
): Readonly<Record<string, unknown>> {
  const one = [...words, entry].join('|')
  return {
    anyOf: [
      { type: 'string', pattern: `^\\s*(${one})(\\s*,\\s*(${entry}))*\\s*$` },
      {
        type: 'array',
        items: { type: 'string', pattern: `^\\s*(${one})\\s*$` },
        minItems: limits.min,
        maxItems: limits.max,
      },
    ],
  }
}
