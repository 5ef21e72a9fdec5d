/**
 * Runs Spin: a search of every state of a model, and the path to a forbidden state.
 *
 * Owns the programs and their output. The searches and their expected results are in `searches.ts`.
 */

import { execFile } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { requireProgram } from '../support/programs.ts'
import type { Search } from './searches.ts'

export const SPECIFICATION = fileURLToPath(new URL('../../spec', import.meta.url))

export type Found = {
  readonly states: number
  readonly transitions: number
  readonly tookMs: number
  /** Whether every state was looked at. */
  readonly exhaustive: boolean
  /** The property that is broken, and how it came to be. */
  readonly broken?: { readonly property: string; readonly story: readonly string[] }
}

/** Longer than any path: a search that has to cut one is not exhaustive, and says so. */
const DEPTH_MAX = 100_000

/** Beyond, a search gives up rather than take the machine's memory. */
const MEMORY_MAX_MB = 12_000

export async function search({ defines, depth }: Pick<Search, 'defines' | 'depth'>): Promise<Found> {
  return inFolderOfItsOwn(async (folder) => {
    const given = defines.map((define) => `-D${define}`)
    await run(requireProgram('spin'), [...given, '-a', 'record.pml'], folder)
    // A search that ends at a short path takes less than a second: three less are lost to make it a fast program.
    const optimized = depth === undefined ? '-O1' : '-O0'
    const sizes = [optimized, '-w', '-DSAFETY', '-DCOLLAPSE', `-DMEMLIM=${MEMORY_MAX_MB}`]
    await run(requireProgram('cc'), [...sizes, ...given, '-o', 'pan', 'pan.c'], folder)
    // -E: a state without a next step is no error here.
    const report = await run(join(folder, 'pan'), ['-E', '-n', `-m${depth ?? DEPTH_MAX}`], folder)
    return { ...readReport(report), ...(await storyIn(folder, given, report)) }
  })
}

function readReport(report: string): Found {
  const number = (pattern: RegExp) => Number(pattern.exec(report)?.[1] ?? Number.NaN)
  const states = number(/([\d.e+]+) states, stored/)
  if (!Number.isFinite(states)) throw new Error(`no report of a search: ${report.slice(-2_000)}`)
  return {
    states,
    transitions: number(/([\d.e+]+) transitions/),
    tookMs: Math.round(number(/elapsed time ([\d.e+-]+) seconds/) * 1_000),
    exhaustive: !/Search not completed|max search depth too small|out of memory|pan: reached/.test(report),
  }
}

async function storyIn(
  folder: string,
  given: readonly string[],
  report: string,
): Promise<Pick<Found, 'broken'>> {
  const property = /assertion violated (?:\()?(\w+)/.exec(report)?.[1]
  if (property === undefined) return {}
  // Nodes change their names on the way, which Spin's replay does not follow.
  if (given.includes('-DSYMMETRY')) return { broken: { property, story: [] } }
  const told = await run(requireProgram('spin'), [...given, '-t', 'record.pml'], folder)
  const story = told
    .split('\n')
    .map((line) => line.trim())
    .filter(
      (line) =>
        /^(node \d|session \d|a read|the read|rejoin \d:|the (lease|quarantine))/.test(line) ||
        line.startsWith('(the'),
    )
  return { broken: { property, story } }
}

/** Spin writes where it stands. */
export async function inFolderOfItsOwn<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-spec-'))
  try {
    await cp(SPECIFICATION, folder, { recursive: true })
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** What a program printed; rejects where it ends with an error, with what it printed. */
export function run(program: string, args: readonly string[], folder: string): Promise<string> {
  return new Promise((resolve, reject) => {
    execFile(program, args, { cwd: folder, maxBuffer: 64 * 1024 * 1024 }, (cause, stdout, stderr) => {
      // A trail that ends in a broken property, and a search that found one, are no failures of the program.
      if (cause === null || typeof cause.code === 'number') {
        const said = `${stdout}${stderr}`
        if (/Error: syntax error|saw '|fatal error|error: /.test(said))
          reject(new Error(said.slice(0, 4_000)))
        else resolve(said)
      } else reject(new Error(`${program}: ${stderr || cause.message}`, { cause }))
    })
  })
}
