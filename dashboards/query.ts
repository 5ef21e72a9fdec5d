/** A query of a panel with Grafana's variables filled in, for asking Prometheus directly; and the label of a series. */

/**
 * @param interval what `$__rate_interval` becomes: four times the scrape interval, as Grafana computes it. A subquery over minutes
 *   becomes as short, by the second: who asks here has a Prometheus that scrapes every second, and has run for some of them
 */
export function filledIn(expr: string, interval: string): string {
  return expr
    .replaceAll('$__rate_interval', interval)
    .replaceAll(/\[\d+m:\d+s\]/g, `[${interval}:1s]`)
    .replaceAll(/\$(cluster|namespace|job|instance)\b/g, '.*')
}

export function labelOf(legend: string, metric: Readonly<Record<string, string>>): string {
  return legend.replaceAll(/\{\{(\w+)\}\}/g, (_, name: string) => metric[name] ?? '')
}
