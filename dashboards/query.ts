/** A query of a panel with Grafana's variables filled in, for asking Prometheus directly; and the label of a series. */

/** @param interval what `$__rate_interval` becomes: four times the scrape interval, as Grafana computes it */
export function filledIn(expr: string, interval: string): string {
  return expr
    .replaceAll('$__rate_interval', interval)
    .replaceAll(/\$(cluster|namespace|job|instance)\b/g, '.*')
}

export function labelOf(legend: string, metric: Readonly<Record<string, string>>): string {
  return legend.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => metric[name] ?? '')
}
