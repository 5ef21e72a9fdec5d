/**
 * What the sidecar weighs for whoever installs it: packages, size, memory at rest, time until it serves.
 *
 * It packs the sidecar, installs the tarball into an empty folder, and starts it with embedded nodes and without a proxy. Times
 * and memory are medians of several starts; a busy machine makes the times longer, and the processor time of a start a little. Another
 * build is started by turns with it, so that the two can be compared on a busy machine, too.
 *
 *   npm run bench -- weight [starts, 5 without] [main.js of another build]
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packAll } from '../scripts/pack.ts'
import { startSidecar } from '../test/support/sidecar.ts'

const MIB = 2 ** 20
type Start = { readonly startMs: number; readonly cpuMs: number; readonly residentMiB: number }
const STARTS = [
  ['residentMiB', 'memory at rest', 'MiB'],
  ['startMs', 'until it serves', 'ms'],
  ['cpuMs', 'processor time', 'ms'],
] as const
/** Clock ticks of the kernel: 100 a second on every Linux that Node runs on. */
const TICK_MS = 10
const starts = Number(process.argv[2] ?? 5)
const other = process.argv[3]
const folder = mkdtempSync(join(tmpdir(), 'fencepost-weight-'))
try {
  const tarballs = await packAll(join(folder, 'dist'), { checked: false })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const options = ['--offline', '--silent', '--no-audit', '--no-fund']
  execFileSync('npm', ['install', ...options, tarballs.fencepost], { cwd: folder })
  const { packages } = JSON.parse(readFileSync(join(folder, 'package-lock.json'), 'utf8'))
  const modules = join(folder, 'node_modules')
  const main = join(modules, 'fencepost/dist/main.js')
  const mains = [main, ...(other === undefined ? [] : [other])]
  const runs = new Map(mains.map((one) => [one, [] as Start[]]))
  for (let run = 0; run < starts; run += 1) for (const one of mains) runs.get(one)!.push(await measured(one))
  const middle = (one: string, of: keyof Start) => median(runs.get(one)!.map((start) => start[of]))
  const rows: readonly (readonly [string, string])[] = [
    ['packages', String(Object.keys(packages).length - 1)],
    ['to download', `${megabytes(statSync(tarballs.fencepost).size)} MB`],
    ['installed', `${megabytes(sizeOf(modules))} MB`],
    ...STARTS.map(([of, what, unit]): [string, string] => {
      const own = middle(main, of)
      const ratio =
        other === undefined ? '' : `, ${(own / middle(other, of)).toFixed(2)} of the other build's`
      return [what, `${Math.round(own)} ${unit}${ratio}`]
    }),
  ]
  for (const [what, number] of rows) console.log(`${what.padEnd(16)} ${number}`)
} finally {
  rmSync(folder, { recursive: true, force: true })
}

async function measured(main: string): Promise<Start> {
  const beganMs = performance.now()
  await using sidecar = await startSidecar({ FENCEPOST_REDIS_NODES: 'embedded' }, { main })
  const startMs = performance.now() - beganMs
  const fields = readFileSync(`/proc/${sidecar.process.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
  const cpuMs = (Number(fields[11]) + Number(fields[12])) * TICK_MS
  const metrics = await (await fetch(`${sidecar.admin}/metrics`)).text()
  const bytes = Number(/^process_resident_memory_bytes (\S+)$/m.exec(metrics)?.[1])
  return { startMs, cpuMs, residentMiB: bytes / MIB }
}

function sizeOf(place: string): number {
  return readdirSync(place, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0)
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? Number.NaN
}

function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}
