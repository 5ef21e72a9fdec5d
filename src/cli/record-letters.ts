/**
 * Of `fencepost records`: dead letters (claims that lapsed without an outcome, which wait for a decision) and the newest
 * decisions of the sidecar that is asked.
 *
 * Owns that a dead letter is decided as a record is: with a reason, shown first, and done with --yes alone.
 */

import { EXIT, type ExitCode } from './command.ts'
import { CallRefused, type OperatorClient, type Reply } from './operator-client.ts'
import { decisionLines, letterLines } from './record-table.ts'

/** What a command prints, and its exit code. */
export type Printed = { readonly exit: ExitCode; readonly reply: unknown; readonly text: string }

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

type Letter = { readonly reason?: string; readonly yes?: true; readonly completed?: true }

export async function letterDecided(
  client: OperatorClient,
  act: 'requeue' | 'discard',
  id: string,
  { reason, yes, completed }: Letter,
): Promise<Printed> {
  if (reason === undefined) throw new CallRefused('Why? Give --reason "ticket 4711: …".', EXIT.usage)
  const path = `/v1/operator/dead-letters/${encodeURIComponent(id)}/${act}`
  const body = { reason, ...(completed ? { completed } : {}) }
  const plan = await client.call('POST', path, { ...body, dry_run: true })
  const lines = (plan.effects as readonly string[]).map((effect) => `  ${effect}\n`).join('')
  if (!yes) {
    const text = `${act} would mean:\n${lines}Nothing was decided. To do it, add --yes.\n`
    return { exit: EXIT.usage, reply: plan, text }
  }
  const reply = await client.call('POST', path, body)
  return reply.decided === true
    ? { exit: EXIT.ok, reply, text: `${act}: done\n${lines}` }
    : {
        exit: EXIT.failure,
        reply,
        text: `${act}: not decided, its record has moved on (${String(reply.because)}). The entry is dropped.\n`,
      }
}
