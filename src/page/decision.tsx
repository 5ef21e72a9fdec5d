/**
 * A decision: a reason, a preview of what will happen, and then the decision itself.
 *
 * Owns the order. Nothing can be decided that was not previewed as it stands now; a promise that would be broken has to be said out
 * by a tick of its own; and the decision is made under the token of the preview, so a record that moved on stays as it is.
 */

import type { ComponentChildren } from 'preact'
import { useEffect, useId, useRef, useState } from 'preact/hooks'
import { isInDoubt, sentenceOf } from './api.ts'
import { Failure } from './pieces.tsx'
import { type AnyDecided, reportOf } from './words.ts'

type DecisionProps = {
  /** On the button that decides, such as "End the claim". */
  readonly name: string
  /** Why it is impossible at the moment. */
  readonly because?: string | undefined
  readonly hint?: string | undefined
  /** Further fields. */
  readonly children?: ComponentChildren
  /** The members of the call besides the reason, of the form as it is filled in; a text is what is wrong with it. */
  readonly members?: (form: FormData) => Record<string, unknown> | string
  readonly send: (body: Record<string, unknown>) => Promise<AnyDecided>
  /** What came of it stays on the page, also where nothing is left to decide. */
  readonly onDecided: (name: string, decided: AnyDecided) => void
}

type Stage =
  | { readonly kind: 'asking' }
  | { readonly kind: 'previewed'; readonly body: Record<string, unknown>; readonly preview: AnyDecided }
  | { readonly kind: 'failed'; readonly error: unknown }
  | { readonly kind: 'done'; readonly decided: AnyDecided }

export function Decision({ name, because, hint, children, members, send, onDecided }: DecisionProps) {
  const [stage, setStage] = useState<Stage>({ kind: 'asking' })
  const [busy, setBusy] = useState(false)
  const id = useId()
  const attempt = async (work: () => Promise<void>) => {
    setBusy(true)
    try {
      await work()
    } catch (error) {
      setStage({ kind: 'failed', error })
    } finally {
      setBusy(false)
    }
  }
  const preview = (event: SubmitEvent) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget as HTMLFormElement)
    const given = members?.(form) ?? {}
    if (typeof given === 'string') return setStage({ kind: 'failed', error: given })
    const body = { reason: String(form.get('reason') ?? '').trim(), ...given }
    return attempt(async () => {
      const told = await send({ ...body, dry_run: true })
      setStage({ kind: 'previewed', body, preview: told })
    })
  }
  const decide = (body: Record<string, unknown>) =>
    attempt(async () => {
      const decided = await send(body).catch(doubted)
      setStage({ kind: 'done', decided })
      onDecided(name, decided)
    })
  if (because !== undefined)
    return stage.kind === 'done' ? (
      <Done name={name} decided={stage.decided} />
    ) : (
      <p class="hint">{because}</p>
    )
  return (
    <div class="decision">
      {/* What was previewed is what is decided: any change asks for a new preview. */}
      <form
        onSubmit={(event) => void preview(event)}
        onInput={() => stage.kind !== 'asking' && setStage({ kind: 'asking' })}
        autocomplete="off"
      >
        {hint === undefined ? undefined : <p class="hint">{hint}</p>}
        {children}
        <label for={`${id}-reason`}>Reason</label>
        <input
          id={`${id}-reason`}
          name="reason"
          required
          minLength={3}
          maxLength={500}
          placeholder="ticket 4711: …"
          aria-describedby={`${id}-hint`}
        />
        <p id={`${id}-hint`} class="hint">
          It stands in the audit log with your name. No secrets.
        </p>
        <button type="submit" disabled={busy}>
          Preview
        </button>
      </form>
      {stage.kind === 'previewed' ? (
        <Confirm name={name} stage={stage} busy={busy} onDecide={(body) => void decide(body)} />
      ) : undefined}
      {stage.kind === 'failed' ? <Failure error={stage.error} /> : undefined}
      {stage.kind === 'done' ? <Done name={name} decided={stage.decided} /> : undefined}
    </div>
  )
}

function doubted(error: unknown): never {
  if (!isInDoubt(error)) throw error
  throw new Error(
    `${sentenceOf(error)} It is not known whether it was decided: look at it again before you decide once more.`,
  )
}

const BROKEN: Readonly<Record<string, string>> = {
  live: 'I end it even though a live lease holds it: its holder may be at work.',
  completed: 'I decide even though its outcome is recorded: clients may have been told otherwise.',
  damaged:
    'I decide even though an outcome is recorded that can’t be read: clients may have been told otherwise.',
}

type ConfirmProps = {
  readonly name: string
  readonly stage: Extract<Stage, { kind: 'previewed' }>
  readonly busy: boolean
  readonly onDecide: (body: Record<string, unknown>) => void
}

function Confirm({ name, stage: { body, preview }, busy, onDecide }: ConfirmProps) {
  const { requires, effects = [], before } = preview
  const [said, setSaid] = useState(false)
  const place = useRef<HTMLElement>(null)
  useEffect(() => place.current?.focus(), [preview])
  const whole = {
    ...body,
    ...(requires === undefined ? {} : { even_though: requires }),
    ...(before?.fencing_token === undefined ? {} : { fencing_token: before.fencing_token }),
  }
  return (
    <section class="preview" ref={place} tabIndex={-1} aria-label="Preview">
      <h4>This will happen</h4>
      <ul>
        {effects.map((effect) => (
          <li key={effect}>{effect}</li>
        ))}
      </ul>
      {requires === undefined ? undefined : (
        <label class="tick">
          <input
            type="checkbox"
            checked={said}
            onChange={(event) => setSaid((event.currentTarget as HTMLInputElement).checked)}
          />{' '}
          {BROKEN[requires] ?? `Even though it is ${requires}.`}
        </label>
      )}
      <button
        type="button"
        class="danger"
        disabled={busy || (requires !== undefined && !said)}
        onClick={() => onDecide(whole)}
      >
        {name}
      </button>
    </section>
  )
}

function Done({ name, decided }: { readonly name: string; readonly decided: AnyDecided }) {
  const { effects = [], verdict, audited } = decided
  return (
    <div class="done" role="status">
      <p>
        <strong>{reportOf(name, decided)}</strong>{' '}
        {verdict === undefined ? '' : `The application answered: ${verdict}. `}
        {audited === false
          ? 'Too few nodes took the note of the result; that it was begun is written down.'
          : ''}
      </p>
      <ul>
        {effects.map((effect) => (
          <li key={effect}>{effect}</li>
        ))}
      </ul>
    </div>
  )
}
