/** The text format of Prometheus, as far as tests need it: one entry per series, by name and labels as written. */

export function seriesOf(exposition: string): Map<string, number> {
  const lines = exposition.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  // An exemplar follows ` # ` and is not part of the series.
  const pairs = lines.map((line) => {
    const sample = line.split(' # ')[0] as string
    const end = sample.indexOf('}') + 1 || sample.indexOf(' ')
    return [sample.slice(0, end), Number(sample.slice(end).trim().split(' ')[0])] as const
  })
  return new Map(pairs)
}

export async function scrape(admin: string, accept = 'text/plain'): Promise<string> {
  const response = await fetch(`${admin}/metrics`, { headers: { accept } })
  if (response.status !== 200) throw new Error(`the scrape was answered with ${response.status}`)
  return response.text()
}
