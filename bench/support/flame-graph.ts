/**
 * A V8 CPU profile as a flame graph in SVG: width is time, a caller stands below its callees, the order
 * in time is lost. Owns the drawing only; idle time is left out.
 */

import type { Profiler } from 'node:inspector'

const WIDTH = 1200
const ROW = 17
/** Narrower frames are unreadable, and a file of many is large. */
const MIN_WIDTH = 1.5
const CHARACTER = 6.6

type Frame = {
  readonly name: string
  readonly place: string
  micros: number
  readonly calls: Map<string, Frame>
}

export function drawFlameGraph(profile: Profiler.Profile, title: string): string {
  const root = frameTree(profile)
  const boxes: string[] = []
  let deepest = 0
  const draw = (frame: Frame, left: number, depth: number) => {
    const width = (frame.micros / root.micros) * WIDTH
    if (width < MIN_WIDTH) return
    deepest = Math.max(deepest, depth)
    boxes.push(box(frame, left, width, depth, root.micros))
    let at = left
    for (const called of [...frame.calls.values()].sort((a, b) => b.micros - a.micros)) {
      draw(called, at, depth + 1)
      at += (called.micros / root.micros) * WIDTH
    }
  }
  draw(root, 0, 0)
  const height = (deepest + 2) * ROW + 12
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" role="img" font-family="monospace" font-size="11">`,
    `<title>${escaped(title)}</title>`,
    `<rect width="${WIDTH}" height="${height}" fill="#fffdf8"/>`,
    `<text x="6" y="14" font-size="13">${escaped(title)}</text>`,
    // Row 0 is at the bottom.
    `<g transform="translate(0 ${height - ROW - 4}) scale(1 1)">`,
    ...boxes,
    '</g></svg>',
    '',
  ].join('\n')
}

export type SelfTime = { readonly name: string; readonly place: string; readonly share: number }

/** The self time of each function, over all callers, as a share of all time that was not idle; the largest first. */
export function selfTimes({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): readonly SelfTime[] {
  const byId = new Map(nodes.map((node) => [node.id, node.callFrame]))
  const times = new Map<string, { name: string; place: string; micros: number }>()
  let total = 0
  for (const [index, id] of samples.entries()) {
    const call = byId.get(id)
    if (call === undefined || call.functionName === '(idle)') continue
    const micros = timeDeltas[index] ?? 0
    total += micros
    const place = placeOf(call.url, call.lineNumber)
    const name = call.functionName === '' ? '(anonymous)' : call.functionName
    const time = times.get(`${name} ${place}`) ?? { name, place, micros: 0 }
    time.micros += micros
    times.set(`${name} ${place}`, time)
  }
  return [...times.values()]
    .sort((a, b) => b.micros - a.micros)
    .map(({ name, place, micros }) => ({ name, place, share: micros / total }))
}

function box({ name, place, micros }: Frame, left: number, width: number, depth: number, total: number) {
  const share = ((micros / total) * 100).toFixed(1)
  const label = name.slice(0, Math.max(0, Math.floor((width - 4) / CHARACTER)))
  const y = -depth * ROW
  return (
    `<g><title>${escaped(`${name} ${place} ${share} %`)}</title>` +
    `<rect x="${left.toFixed(1)}" y="${y}" width="${width.toFixed(1)}" height="${ROW - 1}" fill="${colour(place)}"/>` +
    (label.length > 2 ? `<text x="${(left + 2).toFixed(1)}" y="${y + 12}">${escaped(label)}</text>` : '') +
    '</g>'
  )
}

/** Ours, packages, and what Node and V8 do. */
function colour(place: string): string {
  if (place.startsWith('src/')) return '#f2a65a'
  if (place.includes('redlock')) return '#9ad1c4'
  if (place.includes('ioredis') || place.includes('redis/')) return '#c6b8e8'
  return place === '' || place.startsWith('node:') ? '#e3ddd2' : '#f3d9b1'
}

function frameTree({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): Frame {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const parentOf = new Map(nodes.flatMap((node) => (node.children ?? []).map((child) => [child, node.id])))
  const root: Frame = { name: 'all', place: '', micros: 0, calls: new Map() }
  for (const [index, id] of samples.entries()) {
    const stack: number[] = []
    for (let at: number | undefined = id; at !== undefined; at = parentOf.get(at)) stack.push(at)
    const names = stack.reverse().slice(1)
    const leaf = byId.get(id)?.callFrame.functionName
    if (leaf === '(idle)' || leaf === '(program)') continue
    const micros = timeDeltas[index] ?? 0
    root.micros += micros
    let frame = root
    for (const callId of names) {
      const call = byId.get(callId)?.callFrame
      if (call === undefined) continue
      const place = placeOf(call.url, call.lineNumber)
      const name = call.functionName === '' ? '(anonymous)' : call.functionName
      const key = `${name} ${place}`
      const next = frame.calls.get(key) ?? { name, place, micros: 0, calls: new Map() }
      frame.calls.set(key, next)
      next.micros += micros
      frame = next
    }
  }
  return root
}

function placeOf(url: string, line: number): string {
  if (url === '') return ''
  const known = /(?:node_modules\/|\/)((?:src|bench|ioredis|redlock|@redis)\/.*)$/.exec(url)
  return `${known?.[1] ?? url}:${line + 1}`
}

function escaped(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
