/**
 * A destination as spans, metrics and errors name it. That of a webhook is a URL, whose user, path and query may contain secrets and differ
 * with every receiver: its host stands for it.
 */

export function shownDestination(destination: string): string {
  return /^https?:/i.test(destination) && URL.canParse(destination) ? new URL(destination).host : destination
}
