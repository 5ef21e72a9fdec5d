/** A line over the last seconds, small enough to stand beside its number. Its text says what the line shows. */

const WIDTH = 240
const HEIGHT = 48

export function Chart({ values, about }: { readonly values: readonly number[]; readonly about: string }) {
  const most = Math.max(...values, 0)
  const step = WIDTH / Math.max(1, values.length - 1)
  const heightOf = (value: number) => HEIGHT - 1 - (most === 0 ? 0 : (value / most) * (HEIGHT - 4))
  const line = values.map((value, at) => `${(at * step).toFixed(1)},${heightOf(value).toFixed(1)}`).join(' ')
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${about}: at most ${most}, now ${values.at(-1) ?? 0}`}
    >
      <polygon points={`0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} />
      <polyline points={line} />
    </svg>
  )
}
