/**
 * Wall clocks of child processes that a test can step and skew while they run.
 *
 * Owns the compiling of `clock-shim.c` and one small file per process, which the shim maps. It shifts the wall clock
 * only: a sidecar measures leases on the monotonic one, which no operator can set.
 */

import { execFileSync } from 'node:child_process'
import { closeSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const SOURCE = fileURLToPath(new URL('clock-shim.c', import.meta.url))

/** @throws where there is no C compiler, with the sentence that says what to install */
export function compileClockShim(folder: string): string {
  const library = join(folder, 'clock-shim.so')
  try {
    execFileSync('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-o', library, SOURCE], { stdio: 'pipe' })
  } catch (cause) {
    throw new Error(
      `clocks of other processes are stepped by a library that is compiled here, and \`cc\` failed: install a C compiler (Debian: apt-get install gcc libc6-dev)`,
      { cause },
    )
  }
  return library
}

export class ShiftedClock implements Disposable {
  /** For the process whose clock this is. */
  readonly env: Readonly<Record<string, string>>
  readonly #file: number
  #offsetMs = 0
  #diskFull = false

  constructor(library: string, folder: string, name: string) {
    const path = join(folder, `${name}.clock`)
    this.#file = openSync(path, 'w+')
    this.env = { LD_PRELOAD: library, SHIFTED_CLOCK_FILE: path }
    this.set(0)
  }

  get offsetMs(): number {
    return this.#offsetMs
  }

  /** @param ratePpm how much faster it runs from now on, in parts of a million: -50,000 is 5 % slow */
  set(offsetMs: number, ratePpm = 0): void {
    this.#offsetMs = offsetMs
    const bytes = Buffer.alloc(32)
    bytes.writeBigInt64LE(BigInt(Math.round(offsetMs * 1000)), 0)
    bytes.writeBigInt64LE(BigInt(ratePpm), 8)
    bytes.writeBigInt64LE(BigInt(Date.now()) * 1000n, 16)
    bytes.writeBigInt64LE(this.#diskFull ? 1n : 0n, 24)
    writeSync(this.#file, bytes, 0, bytes.length, 0)
  }

  /** Writes of this process to files fail with ENOSPC from now on, or no longer. */
  fillDisk(full: boolean): void {
    this.#diskFull = full
    this.set(this.#offsetMs)
  }

  [Symbol.dispose](): void {
    closeSync(this.#file)
  }
}
