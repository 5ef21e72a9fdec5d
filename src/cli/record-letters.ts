/**
 * Dead letters (claims that lapsed without an outcome, which wait for a decision) and the newest decisions of the sidecar that
 * is asked: `fencepost records`, and for decisions also `fencepost dead-letters`.
 *
 * Owns that a dead letter is decided as a record is: shown first, and done with --yes alone.
 */

import { EXIT } from './command.ts'
import type { Deciding, Printed } from './operator-answer.ts'
import type { OperatorClient, Reply } from './operator-client.ts'
import { decisionLines, letterLines } from './record-table.ts'

export async function entriesListed(
  client: OperatorClient,
  what: 'dead-letters' | 'decisions',
  before: string | undefined,
): Promise<Printed> {
  if (what === 'decisions') {
    const reply = await client.call('GET', '/v1/operator/decisions')
    const decisions = reply.decisions as readonly Reply[]
    const note = reply.sampled === true ? 'Of those that went well only a sample is kept.\n' : ''
    return printed(decisions, reply, `${decisionLines(decisions)}${note}`)
  }
  const cursor = before === undefined ? '' : `?cursor=${encodeURIComponent(before)}`
  const reply = await client.call('GET', `/v1/operator/dead-letters${cursor}`)
  const entries = reply.entries as readonly Reply[]
  const more = reply.cursor === undefined ? '' : `There are older ones: --before ${String(reply.cursor)}\n`
  return printed(entries, reply, `${letterLines(entries)}${more}`)
}

function printed(all: readonly Reply[], reply: Reply, text: string): Printed {
  return all.length === 0 ? { exit: EXIT.failure, reply, text: 'nothing\n' } : { exit: EXIT.ok, reply, text }
}

/**
 * @param decide makes the decision, or with `dryRun` says what it would mean; the reply is that of the operator API
 * @throws CallRefused
 */
export async function letterDecided(
  act: 'requeue' | 'discard',
  { yes }: Pick<Deciding, 'yes'>,
  decide: (dryRun: boolean) => Promise<Reply>,
): Promise<Printed> {
  const plan = await decide(true)
  const lines = (plan.effects as readonly string[]).map((effect) => `  ${effect}\n`).join('')
  if (!yes) {
    const text = `${act} would mean:\n${lines}Nothing was decided. To do it, add --yes.\n`
    return { exit: EXIT.usage, reply: plan, text }
  }
  const reply = await decide(false)
  return reply.decided === true
    ? { exit: EXIT.ok, reply, text: `${act}: done\n${lines}` }
    : {
        exit: EXIT.failure,
        reply,
        text: `${act}: not decided, its record has moved on (${String(reply.because)}). The entry is dropped.\n`,
      }
}
