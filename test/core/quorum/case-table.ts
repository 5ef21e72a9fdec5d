/**
 * Reads the case tables beside this file: text files that a stranger can read, one round of N nodes a line.
 *
 *   completed@10  granted  silent  =>  minority outcome at 10, adopt it
 *
 * Owns the form of a line. Each file begins with what its words mean; `case-tables.test.ts` decides which answer a word
 * stands for, and how a result is worded.
 */

import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export type Case = {
  /** `refused-claim.txt:31` */
  readonly place: string
  readonly words: readonly string[]
  readonly expected: string
}

/** @throws Error at a line that is no case, no comment and not empty */
export function casesOf(table: string): readonly Case[] {
  const lines = readFileSync(join(import.meta.dirname, 'tables', `${table}.txt`), 'utf8').split('\n')
  return lines.flatMap((line, index): Case[] => {
    if (line === '' || line.startsWith('#')) return []
    const place = `${table}.txt:${index + 1}`
    const [nodes, expected, ...more] = line.split(/\s+=>\s+/)
    if (nodes === undefined || expected === undefined || more.length > 0)
      throw new Error(`${place} is not a case: ${line}`)
    return [{ place, words: nodes.split(/\s+/), expected }]
  })
}

/** `completed-x@20#2/expired=two~7^90`, taken apart; what is not there is undefined. */
export type Word = {
  readonly kind: string
  /** Of another request than the one in question. */
  readonly request: string | undefined
  readonly at: number
  readonly attempt: number
  /** `expired`, `given-back`, or milliseconds. */
  readonly left: string
  readonly says: string
  readonly moment: number
  readonly promised: number | undefined
}

/** @throws Error at a text that is not a word */
export function wordOf(text: string): Word {
  const form =
    /^(?<kind>[a-z]+)(-(?<request>[xy]))?(@(?<at>\d+))?(#(?<attempt>\d+))?(\/(?<left>\d+|expired|given-back))?(=(?<says>[a-z]+))?(~(?<moment>\d+))?(\^(?<promised>\d+))?$/
  const parts = form.exec(text)?.groups
  if (parts?.kind === undefined) throw new Error(`not a word of a case table: ${text}`)
  const {
    kind,
    request,
    at = '0',
    attempt = '1',
    left = 'expired',
    says = 'one',
    moment = '1',
    promised,
  } = parts
  return {
    kind,
    request,
    at: Number(at),
    attempt: Number(attempt),
    left,
    says,
    moment: Number(moment),
    promised: promised === undefined ? undefined : Number(promised),
  }
}
