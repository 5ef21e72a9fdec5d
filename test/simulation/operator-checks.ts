/**
 * The checkers of operators' decisions: what each operator was told is true, and nothing was taken back unsaid.
 *
 * Owns the judgement only, like `checks.ts`, which judges what clients were told: a decision excuses there only what the
 * operator said out (`decisions.ts`).
 */

import type { Deed, History } from './history.ts'

/** Nothing was decided, and the operator was told so. */
const WITHOUT_EFFECT: ReadonlySet<string | undefined> = new Set([
  'would',
  'busy',
  'refused',
  'must_say',
  'cannot_ask',
])

export function checkDecisions(history: History): void {
  for (const deed of history.deeds) {
    checkForgotten(deed, history)
    checkWithoutEffect(deed, history)
    checkEnded(deed, history)
  }
  checkOneWins(history)
}

/** O1: an outcome that an operator was told is forgotten or replaced is shown to nobody who asks later. */
function checkForgotten(
  { key, forgot, told, toldMs = Number.POSITIVE_INFINITY }: Deed,
  history: History,
): void {
  if (told !== 'done' || forgot === undefined) return
  const shown = history.shown.find((one) => one.key === key && one.content === forgot && one.askedMs > toldMs)
  if (shown !== undefined)
    history.violated(
      'O1',
      shown.atMs,
      `${forgot} was ${shown.by}, and ${key} was told forgotten at ${toldMs.toFixed(2)}`,
    )
}

/**
 * O2: of several operators who decide under the token that they saw, one decides. A holder whose claim was ended may have
 * got its outcome onto one node before, and a later claim may adopt it: about that another may decide.
 */
function checkOneWins(history: History): void {
  const done = history.deeds.filter(({ told, expects, nothingDecided, decides }) => {
    return (
      told === 'done' &&
      expects !== undefined &&
      !nothingDecided &&
      !decides.startsWith('discard') &&
      decides !== 'requeue'
    )
  })
  for (const [at, second] of done.entries()) {
    const first = done
      .slice(0, at)
      .find(
        ({ key, expects, sawOutcome }) =>
          key === second.key && expects === second.expects && sawOutcome === second.sawOutcome,
      )
    if (first !== undefined)
      history.violated(
        'O2',
        second.toldMs ?? 0,
        `${first.process} (${first.decides}) and ${second.process} (${second.decides}) both decided under token ${second.expects}`,
      )
  }
}

/** O3: a holder whose claim an operator was told is ended renews it no more. */
function checkEnded({ key, told, toldMs = Number.POSITIVE_INFINITY }: Deed, history: History): void {
  if (told !== 'done') return
  for (const { owner, upToToken, how, fromMs, ...of } of history.overruled) {
    if (of.key !== key || how !== 'takenMs' || owner === undefined || fromMs > toldMs) continue
    const renewed = history.renewed.find(
      (one) => one.key === key && one.owner === owner && one.token < upToToken && one.askedMs > toldMs,
    )
    if (renewed !== undefined)
      history.violated(
        'O3',
        renewed.askedMs,
        `token ${renewed.token} was renewed, and was ended at ${fromMs.toFixed(2)}`,
      )
  }
}

/** O4: a decision that was not carried out, or only asked what it would do, has sent the record nothing that may change it. */
function checkWithoutEffect(
  { told, dry, nothingDecided, wrote, key, process, decides, toldMs = 0 }: Deed,
  history: History,
): void {
  const without = dry || WITHOUT_EFFECT.has(told) || (told === 'unavailable' && nothingDecided)
  if (without && wrote)
    history.violated('O4', toldMs, `${process} was told ${told} of ${decides}, and ${key} was written to`)
}
