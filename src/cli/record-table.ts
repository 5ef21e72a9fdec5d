/** Records of the operator API as tables for people. */

import { printDuration } from '../core/quantity.ts'
import type { Reply } from './operator-client.ts'
import { printable } from './terminal.ts'

const SECOND_MS = 1_000

/** One line a record: what `find` and `list` print. */
export function recordLines(records: readonly Reply[]): string {
  const rows = records.map((one) => [
    text(one.state),
    one.claimed_for_ms === undefined ? '' : `claimed ${age(one.claimed_for_ms)} ago`,
    one.attempt === undefined ? '' : `attempt ${text(one.attempt)}`,
    text(one.record),
  ])
  return columns(rows)
}

/** Dead letters, one a line; the id names it to `requeue` and `discard`. */
export function deadLetterLines(entries: readonly Reply[]): string {
  return columns(
    entries.map(({ at, kind, id, record, attempt }) => [
      text(at),
      text(kind),
      attempt === undefined ? '' : `attempt ${text(attempt)}`,
      text(id),
      text(record),
    ]),
  )
}

/** What this sidecar answered lately, newest first; the digits name the record to `show`. */
export function decisionLines(decisions: readonly Reply[]): string {
  return columns(
    decisions.map(({ at, decision, status, route, tenant, attempt, key_hash: hash }) => [
      text(at),
      text(decision),
      text(status),
      text(route),
      text(tenant),
      attempt === undefined ? '' : `attempt ${text(attempt)}`,
      digits(hash),
    ]),
  )
}

/** Everything of one record. */
export function recordPage(shown: Reply): string {
  const {
    holder,
    in_application: known,
    outcome,
    decisions,
    history,
  } = shown as {
    holder?: Reply
    in_application?: Reply
    outcome?: Reply
    decisions?: Readonly<Record<string, Reply>>
    history?: readonly Reply[]
  }
  const facts = [
    ['record', text(shown.record)],
    [
      'state',
      `${text(shown.state)} (${text(shown.answered)} nodes replied, ${text(shown.required)} are required)`,
    ],
    ['token', text(shown.fencing_token)],
    ['attempt', text(shown.attempt)],
    ['fingerprint', digits(shown.fingerprint)],
    ['lease left', duration(shown.lease_remaining_ms)],
    ['kept for', duration(shown.retention_remaining_ms)],
    [
      'held by',
      holder === undefined
        ? ''
        : `${text(holder.sidecar ?? 'a session of the reservation API, or a sidecar unknown by name')}, lock id ${text(holder.lock_id)}, since ${text(holder.since)}`,
    ],
    [
      'application',
      known === undefined
        ? ''
        : `look there for every lock id that begins with ${text(known.lock_ids_begin_with)}, up to fencing token ${text(known.fencing_tokens_up_to)}`,
    ],
    ['outcome', outcome === undefined ? '' : outcomeLine(outcome)],
    ['damaged', text(shown.damage)],
    [
      'note',
      shown.minority_outcome === true
        ? 'a node has an outcome that no majority has: the next claim adopts it'
        : '',
    ],
  ].filter(([, value]) => value !== '')
  const nodes = (shown.nodes as readonly Reply[]).map((node) => [
    node.differs === true ? '!' : ' ',
    text(node.node),
    text(node.state),
    text(node.fencing_token),
    node.attempt === undefined ? '' : `attempt ${text(node.attempt)}`,
    node.lease_remaining_ms === undefined ? '' : `lease ${duration(node.lease_remaining_ms)}`,
    node.retention_remaining_ms === undefined ? '' : `kept ${duration(node.retention_remaining_ms)}`,
    node.fingerprint === undefined ? '' : `fingerprint ${digits(node.fingerprint)}`,
    node.copied === true ? 'copied' : '',
    text(node.detail),
  ])
  const past = (history ?? []).map((entry) => {
    const { id: _, at, kind, record: __, ...rest } = entry
    const fields = Object.entries(rest).map(([name, value]) => `${name}=${text(value)}`)
    return [text(at), text(kind), fields.join('  ')]
  })
  const ways = Object.entries(decisions ?? {}).map(([name, ruling]) => [
    name,
    ruling.possible === true
      ? ruling.requires === undefined
        ? 'possible'
        : `only --even-though ${text(ruling.requires)}`
      : `no: ${text(ruling.because)}`,
  ])
  return [
    columns(facts),
    `\nnodes (! differs from the majority)\n${columns(nodes)}`,
    `\nhistory${shown.history_since === undefined ? '' : `, of the audit log since ${text(shown.history_since)}`}\n${history === undefined ? 'too few nodes told it\n' : past.length === 0 ? 'nothing in the audit log\n' : columns(past)}`,
    `\ndecisions\n${columns(ways)}`,
  ].join('')
}

function outcomeLine(outcome: Reply): string {
  const size = outcome.body_bytes === undefined ? '' : `, ${text(outcome.body_bytes)} bytes`
  const status = outcome.status === undefined ? '' : ` ${text(outcome.status)}`
  const content =
    outcome.body_text ?? (outcome.result === undefined ? undefined : JSON.stringify(outcome.result))
  const shown = content === undefined ? '' : `: ${text(content).slice(0, 400)}`
  return `${text(outcome.kind)}${status}${size}, ${text(outcome.completed_at)}${shown}`
}

function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows.reduce<readonly number[]>(
    (most, row) => row.map((cell, at) => Math.max(cell.length, most[at] ?? 0)),
    [],
  )
  return rows
    .map(
      (row) =>
        `${row
          .map((cell, at) => cell.padEnd(widths[at] ?? 0))
          .join('  ')
          .trimEnd()}\n`,
    )
    .join('')
}

function text(value: unknown): string {
  return value === undefined || value === null ? '' : printable(String(value))
}

/** As many digits of a hash as log lines show. */
function digits(hash: unknown): string {
  return text(hash).slice(0, 16)
}

function duration(ms: unknown): string {
  return typeof ms === 'number' ? age(ms) : ''
}

function age(ms: unknown): string {
  const whole = Number(ms)
  return printDuration(whole < SECOND_MS ? whole : Math.round(whole / SECOND_MS) * SECOND_MS)
}
