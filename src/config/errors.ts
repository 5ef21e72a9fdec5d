/**
 * The possible errors of a configuration, and the sentence for each.
 *
 * Every error names the setting, the value given (secrets masked) and what is accepted. A misspelt name gets the
 * nearest known one as a suggestion.
 */

export type ConfigError =
  | {
      readonly kind: 'refused'
      /** `FENCEPOST_LEASE`, or the path in the file: `routes[2].lease`. */
      readonly name: string
      readonly given: string
      readonly accepts: string
      readonly reason?: string
    }
  | { readonly kind: 'missing'; readonly name: string; readonly accepts: string; readonly reason?: string }
  | { readonly kind: 'unknown'; readonly name: string; readonly nearest?: string }
  /** Two accepted values that contradict each other. `inequality` shows their numbers. */
  | { readonly kind: 'relation'; readonly name: string; readonly inequality: string; readonly reason: string }
  /** An accepted value that another setting forbids: what it names would not encrypt. `speaks` is free of secrets. */
  | {
      readonly kind: 'clear-text'
      readonly name: string
      readonly speaks: string
      readonly refusedBy: string
      readonly instead: string
    }
  /** The file as a whole. */
  | { readonly kind: 'file'; readonly name: string; readonly reason: string }

export function missingSetting(
  { env: name, kind }: { readonly env: string; readonly kind: { readonly accepts: string } },
  reason: string,
): ConfigError {
  return { kind: 'missing', name, accepts: kind.accepts, reason }
}

export function describeError(error: ConfigError): string {
  switch (error.kind) {
    case 'refused': {
      const reason = error.reason === undefined ? '' : ` (${error.reason})`
      return `${error.name}: ${JSON.stringify(error.given)} is not accepted${reason}; accepted is ${error.accepts}`
    }
    case 'missing': {
      const reason = error.reason === undefined ? '' : ` ${error.reason}`
      return `${error.name}: required${reason}, but not set; accepted is ${error.accepts}`
    }
    case 'unknown':
      return `${error.name}: no such setting${error.nearest === undefined ? '' : `; did you mean ${error.nearest}?`}`
    case 'relation':
      return `${error.name}: ${error.inequality} does not hold: ${error.reason}`
    case 'clear-text':
      return `${error.name}: ${error.speaks} would speak in clear text beyond this machine, which ${error.refusedBy} refuses; ${error.instead}`
    case 'file':
      return `${error.name}: ${error.reason}`
  }
}

export function describeErrors(errors: readonly ConfigError[]): string {
  const head = errors.length === 1 ? 'one error' : `${errors.length} errors`
  return [`The configuration has ${head}:`, ...errors.map((error) => `  ${describeError(error)}`)].join('\n')
}

/** The name that takes the fewest edits from `given`, at most a third of its letters. */
export function nearestName(given: string, names: readonly string[]): string | undefined {
  let best: string | undefined
  let fewest = Math.floor(given.length / 3) + 1
  for (const name of names) {
    const edits = editDistance(given.toLowerCase(), name.toLowerCase())
    if (edits < fewest) {
      fewest = edits
      best = name
    }
  }
  return best
}

/** The same for paths in the file; also finds the right last name in another group. */
export function nearestPath(given: string, paths: readonly string[]): string | undefined {
  const lastName = (path: string) => path.slice(path.lastIndexOf('.') + 1)
  const nearest = nearestName(given, paths)
  if (nearest !== undefined) return nearest
  const name = nearestName(lastName(given), paths.map(lastName))
  return paths.find((path) => lastName(path) === name)
}

/** Levenshtein distance: insertions, deletions and replacements of one letter. */
function editDistance(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  for (const [i, letter] of [...from].entries()) {
    const next = [i + 1]
    for (const [j, other] of [...to].entries())
      next.push(Math.min(next[j]! + 1, row[j + 1]! + 1, row[j]! + (letter === other ? 0 : 1)))
    row = next
  }
  return row.at(-1)!
}
