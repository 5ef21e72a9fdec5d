/**
 * The page about sagas, as HTML without a script: where each stands, and the decisions about those that do not move by themselves.
 *
 * Owns the words and the order: nothing is decided that was not previewed. Who sees what is decided by `calls.ts`, of whose answers the
 * page is made.
 */
import type { SagaBacklog } from '../backlog.ts'
import type { DeadLetter } from '../dead-letters.ts'
import { type SagaSummary, type SagaView, sagaStatuses } from '../saga-instances.ts'
import { itemsMax, reasonCharsMax, reasonCharsMin } from './calls.ts'
import { type Act, type DecisionNote, EFFECTS } from './decisions.ts'
import type { Operator } from './operators.ts'

/** Answers as they are sent: times are text. */
type Sent<T> = { readonly [K in keyof T]: T[K] extends Date | null ? string | Extract<T[K], null> : T[K] }

type ShownDeadLetter = Omit<Sent<DeadLetter>, 'headers' | 'properties' | 'payload'> & {
  readonly payload?: unknown
}

export type Place = {
  /** Where the page is mounted. */
  readonly path: string
  readonly runbookUrl: string
  readonly by: Operator
}

export type Overview = {
  readonly backlog: SagaBacklog
  readonly status: string
  readonly sagas: readonly Sent<SagaSummary>[]
  readonly deadLetters: readonly ShownDeadLetter[]
  readonly decisions: readonly Sent<DecisionNote>[]
}

/** From when on an alert says so, too. */
const oldestAgeMaxMs = 60_000

export function overviewPage(
  place: Place,
  { backlog, status, sagas, deadLetters, decisions }: Overview,
): string {
  const dead = backlog.openDeadLetters.outbox + backlog.openDeadLetters.inbox
  return pageOf(
    place,
    'Sagas and messages',
    html`${activeProblems(place, backlog)}
<form class="panel" method="get" action="${place.path}/sagas">
<label for="saga">Id of a saga</label><input id="saga" name="id" required spellcheck="false" autocomplete="off">
<button class="primary">Show</button></form>
<section class="panel" aria-labelledby="backlog"><h2 id="backlog">Backlog</h2>${facts([
      ['Parked', backlog.sagas.parked],
      ['Turned back now', backlog.sagas.compensating],
      ['Running', backlog.sagas.running],
      ['Messages given up', dead],
      ['In the outbox', backlog.outboxPending],
      ['Oldest of them', duration(backlog.oldestPendingAgeMs)],
      ['Behind dead ones', backlog.outboxParked],
      ['Retried in inboxes', backlog.inboxOpen],
    ])}</section>
<section class="panel" aria-labelledby="list"><h2 id="list">Sagas by state</h2>
<form method="get" action="${place.path}/"><label for="status">State</label><select id="status" name="status">${sagaStatuses.map(
      (one) => html`<option${one === status ? html` selected` : undefined}>${one}</option>`,
    )}</select><button>Show</button></form>${sagaTable(place, sagas, status)}</section>
<section class="panel" aria-labelledby="messages"><h2 id="messages">Messages that were given up</h2>${
      deadLetters.length === 0
        ? html`<p>There is none.</p>`
        : html`<ul class="entries">${deadLetters.map((deadLetter) => deadLetterItem(place, deadLetter))}</ul>`
    }</section>
<section class="panel" aria-labelledby="decisions"><h2 id="decisions">Decisions</h2>${
      decisions.length === 0
        ? html`<p>There is none.</p>`
        : html`<ol class="history">${decisions.map(
            ({ at, by, act, subject, reason }) =>
              html`<li><p class="when">${time(at)}</p><p><strong>${by}: ${act}</strong> ${subject}</p><p class="reason">“${reason}”</p></li>`,
          )}</ol>`
    }</section>`,
  )
}

/** Alerts say what lasts; each has a section in the runbooks. */
function activeProblems(
  { runbookUrl }: Place,
  { sagas, openDeadLetters, oldestPendingAgeMs }: SagaBacklog,
): Html {
  const dead = openDeadLetters.outbox + openDeadLetters.inbox
  const wrong = [
    [sagas.parked > 0, `Parked sagas: ${sagas.parked}.`, 'fencepostsagaparked'],
    [dead > 0, `Messages that were given up: ${dead}.`, 'fencepostdeadlettersopen'],
    [
      oldestPendingAgeMs > oldestAgeMaxMs,
      `A message has waited in the outbox for ${duration(oldestPendingAgeMs)}.`,
      'fencepostoutboxstalled',
    ],
  ] as const
  const found = wrong.filter(([is]) => is)
  if (found.length === 0) return html`<p class="done">Nothing waits for a person.</p>`
  return html`<section class="panel wrong" aria-labelledby="wrong"><h2 id="wrong">Wrong now</h2><ul>${found.map(
    ([, what, runbook]) => html`<li>${what} <a href="${runbookUrl}#${runbook}">What to do</a></li>`,
  )}</ul></section>`
}

function sagaTable(place: Place, sagas: Overview['sagas'], status: string): Html {
  if (sagas.length === 0) return html`<p>None is ${status}.</p>`
  const caption =
    sagas.length < itemsMax
      ? `${sagas.length} ${status}`
      : `The first ${itemsMax} that are ${status}; the backlog says how many there are`
  return table(
    caption,
    ['Saga', 'Name', 'Moved', 'Why'],
    sagas.map(({ sagaId, name, updatedAt, lastError, reason }) => [
      html`<a href="${linkTo(place, sagaId)}">${sagaId}</a>`,
      html`${name}`,
      time(updatedAt),
      html`${lastError ?? reason}`,
    ]),
  )
}

function deadLetterItem(place: Place, deadLetter: ShownDeadLetter): Html {
  const { id, type, aggregateType, aggregateId, source, consumerId, attempts, diedAt, payload } = deadLetter
  return html`<li><h3>${id}: ${type} of ${aggregateType} ${aggregateId}</h3>${facts([
    ['Given up', time(diedAt)],
    ['By', source === 'inbox' ? `consumer ${consumerId}` : 'the outbox'],
    ['Attempts', attempts],
    ['Error', `${deadLetter.errorCode}: ${deadLetter.errorMessage}`],
  ])}${payload === undefined ? undefined : verbatim(payload)}${
    place.by.role === 'operate'
      ? html`<details><summary>Decide about ${id}</summary><h4>The cause is gone</h4>${decisionForm(place, 'replay', String(id))}
<h4>It shall never be handled</h4>${decisionForm(place, 'discard', String(id))}</details>`
      : undefined
  }</li>`
}

export function sagaPage(place: Place, saga: Sent<SagaView>): string {
  const { retry, compensate } = rulings(saga)
  return pageOf(
    place,
    `Saga ${saga.sagaId}`,
    html`<section class="panel" aria-labelledby="state"><h2 id="state">${saga.name}: ${badge(saga.status)}</h2>${facts(
      [
        ['Driven by', saga.drivenBy],
        ['Why', saga.reason],
        ['Attempts', saga.attempts],
        ['Last error', saga.lastError],
        ['Next attempt', saga.nextAttemptAt === null ? undefined : time(saga.nextAttemptAt)],
        ['Trace', saga.traceId],
        ['Dead letters', saga.deadLetters.join(', ')],
      ],
    )}${table(
      'Steps',
      ['Step', 'State', 'Attempts', 'Last error', 'Result'],
      saga.steps.map(({ name, status, attempts, lastError, result }) => [
        html`${name}`,
        badge(status),
        html`${attempts}`,
        html`${lastError}`,
        html`${result === undefined || result === null ? '' : JSON.stringify(result)}`,
      ]),
    )}${saga.input === undefined ? undefined : html`<h3>What it was given</h3>${verbatim(saga.input)}`}</section>${
      place.by.role === 'operate'
        ? html`<section class="panel" aria-labelledby="decide"><h2 id="decide">Decide</h2>
<h3>The cause is gone</h3>${retry === undefined ? decisionForm(place, 'retry', saga.sagaId) : html`<p class="hint">${retry}</p>`}
<h3>It shall not go on</h3>${
            compensate === undefined
              ? decisionForm(place, 'compensate', saga.sagaId)
              : html`<p class="hint">${compensate}</p>`
          }</section>`
        : undefined
    }`,
  )
}

/** Why it is impossible; undefined where it is possible. The kit rules again, and refuses what has moved on. */
export function rulings({
  status,
  drivenBy,
  deadLetters,
}: Pick<SagaView, 'status' | 'drivenBy' | 'deadLetters'>): Readonly<
  Record<'retry' | 'compensate', string | undefined>
> {
  const byMessages = drivenBy === 'messages'
  const isDead = byMessages && deadLetters.length > 0
  const isOpen = status === 'running' || status === 'parked'
  // Messages may have more for it in other services after the steps of this one are done or undone.
  const canBeUndone = isOpen || (byMessages && (status === 'completed' || status === 'compensating'))
  const notRetried = byMessages
    ? 'It is not parked, and no message of its steps was given up.'
    : 'It is not parked, so it goes on by itself.'
  const notUndone = byMessages
    ? 'It is compensated already.'
    : 'Only a saga that is running or parked can be turned back.'
  return {
    retry: status === 'parked' || isDead ? undefined : notRetried,
    compensate: canBeUndone ? undefined : notUndone,
  }
}

const names: Readonly<Record<Act, string>> = {
  retry: 'Let it go on',
  compensate: 'Turn it back',
  replay: 'Replay it',
  discard: 'Discard it',
}

function decisionForm({ path }: Place, act: Act, subject: string): Html {
  const id = `${act}-${subject}`
  return html`<form class="decision" method="post" action="${path}/decide" autocomplete="off">
<input type="hidden" name="act" value="${act}"><input type="hidden" name="subject" value="${subject}">
<label for="${id}">Reason</label><input id="${id}" name="reason" required minlength="${reasonCharsMin}" maxlength="${reasonCharsMax}" placeholder="ticket 4711: …" aria-describedby="${id}-hint">
<p id="${id}-hint" class="hint">It stands among the decisions with your name. No secrets.</p>
<button>Preview: ${names[act]}</button></form>`
}

export type Form = { readonly act: Act; readonly subject: string; readonly reason: string }

export function previewPage(place: Place, { act, subject, reason }: Form): string {
  return pageOf(
    place,
    `${names[act]}: ${subject}`,
    html`<section class="preview" aria-label="Preview"><h2>This will happen</h2><ul>${EFFECTS[act].map(
      (effect) => html`<li>${effect}</li>`,
    )}</ul><p class="reason">“${reason}”</p><form method="post" action="${place.path}/decide">
<input type="hidden" name="act" value="${act}"><input type="hidden" name="subject" value="${subject}"><input type="hidden" name="reason" value="${reason}">
<button class="danger" name="confirmed" value="yes">${names[act]}</button></form></section>${back(place, act, subject)}`,
  )
}

/** @param moved 0 where somebody else has decided about the messages meanwhile */
export function decidedPage(place: Place, { act, subject }: Form, moved: number): string {
  return pageOf(
    place,
    `${names[act]}: ${subject}`,
    html`<p class="done" role="status">${names[act]}: ${
      moved === 0 ? 'nothing was left to decide. Somebody else has decided about it.' : 'done.'
    }</p>${back(place, act, subject)}`,
  )
}

export function problemPage(place: Place, title: string, sentence: string): string {
  return pageOf(place, title, html`<p class="failure" role="alert">${sentence}</p>`)
}

function back(place: Place, act: Act, subject: string): Html {
  const isSaga = act === 'retry' || act === 'compensate'
  return isSaga ? html`<p><a href="${linkTo(place, subject)}">Back to the saga</a></p>` : html``
}

function linkTo({ path }: Place, sagaId: string): string {
  return `${path}/sagas/${encodeURIComponent(sagaId)}`
}

function pageOf({ path, by }: Place, title: string, main: Html): string {
  return html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex"><title>${title} – fencepost</title>
<link rel="stylesheet" href="${path}/style.css"><link rel="icon" href="data:,"></head>
<body><a class="skip" href="#main">To the content</a>
<header><span class="brand">fencepost</span><nav aria-label="Views"><a href="${path}/">Sagas</a></nav><span class="who">${by.name} (${by.role})</span></header>
<main id="main" tabindex="-1"><h1>${title}</h1>
${main}
</main></body></html>`.html
}

/** Terms and what is known of them; a fact that is not known is left out. */
function facts(of: readonly (readonly [string, Html | string | number | null | undefined])[]): Html {
  const known = of.filter(([, value]) => value !== undefined && value !== null && value !== '')
  return html`<dl class="facts">${known.map(([term, value]) => html`<div><dt>${term}</dt><dd>${value}</dd></div>`)}</dl>`
}

/** A wide table scrolls by itself, also by keyboard. */
function table(caption: string, heads: readonly string[], rows: readonly (readonly Html[])[]): Html {
  return html`<section class="scrolls" tabindex="0" aria-label="${caption}"><table><caption>${caption}</caption>
<thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
<tbody>${rows.map((cells) => html`<tr>${cells.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody></table></section>`
}

function verbatim(value: unknown): Html {
  return html`<pre tabindex="0">${JSON.stringify(value, undefined, 2)}</pre>`
}

/** A word for it always stands beside the colour. */
const tones: Readonly<Record<string, string>> = {
  completed: 'good',
  done: 'good',
  compensating: 'warn',
  parked: 'bad',
  failed: 'bad',
}

function badge(word: string): Html {
  return html`<span class="badge ${tones[word] ?? 'plain'}">${word}</span>`
}

/** In UTC, as logs have it: two people compare notes across zones. */
function time(iso: string): Html {
  return html`<time datetime="${iso}">${iso.replace('T', ' ').replace(/\.\d+Z$/, ' UTC')}</time>`
}

function duration(ms: number): string {
  const seconds = Math.floor(ms / 1_000)
  if (seconds < 120) return `${seconds} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return `${minutes} min`
  const hours = Math.floor(minutes / 60)
  return hours < 48 ? `${hours} h` : `${Math.floor(hours / 24)} d`
}

/** HTML of which every value is text, unless it is HTML made here. */
type Html = { readonly html: string }
type Value = Html | readonly Html[] | string | number | null | undefined

function html(parts: TemplateStringsArray, ...values: readonly Value[]): Html {
  return { html: parts.map((part, index) => part + textOf(values[index])).join('') }
}

function textOf(value: Value): string {
  if (value === null || value === undefined) return ''
  if (typeof value !== 'object') return escaped(String(value))
  return 'html' in value ? value.html : value.map((one) => one.html).join('')
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

/** Control and format characters are written out, too: they could reverse or hide what stands around them. Line feeds and tabs stay. */
function escaped(text: string): string {
  return text
    .replace(/[^\P{C}\n\t]/gu, (one) => `\\u{${one.codePointAt(0)?.toString(16) ?? ''}}`)
    .replace(/[&<>"']/g, (one) => entities[one] ?? '')
}
