/**
 * `fencepost records find | show | list | end | complete | forget | ask | requeue | discard`: one customer's stuck request.
 *
 * Owns the words on the terminal. It calls the operator listener of a running sidecar, which decides. A decision is
 * shown before it is made, and made with --yes alone, under the token that was shown: a record that has moved on in
 * between is left as it is. What was shown by an earlier command is said with --fencing-token.
 */

import { InvalidArgumentError, type Command as Parser } from 'commander'
import { type Command, EXIT, type Io, withArguments } from './command.ts'
import {
  CallRefused,
  deadLetterDecided,
  type OperatorClient,
  operatorClient,
  type Printed,
  printed,
  type Reply,
  reasoned,
  reasonGiven,
} from './operator-client.ts'
import { type Deciding, locator, outcomeOf, type Which } from './record-given.ts'
import { deadLetterLines, decisionLines, recordLines, recordPage } from './record-table.ts'

const RECORDS = '/v1/operator/records'

export const records: Command = (args, io) =>
  withArguments('records', args, io, (parser, done) => {
    parser.description(
      'Finds and shows single records, and decides about them (docs/operations/one-key.md). A record is named by what support has: --path and --key; --value; --reservation; or a reference out of a log line or a problem document.',
    )
    const on = async (options: Which, act: (client: OperatorClient) => Promise<Printed>) =>
      done(
        await printed(options, io, async () => {
          const client = operatorClient(options, io)
          return typeof client === 'number' ? client : act(client)
        }),
      )
    command(parser, 'find [reference]', 'find the records that this can mean').action(
      (reference: string | undefined, options: Which) =>
        on(options, async (client) => listPrinted(await found(client, reference, options, io))),
    )
    command(
      parser,
      'show [reference]',
      'one record: the verdict, every node, its history, what can be decided',
    ).action((reference: string | undefined, options: Which) =>
      on(options, async (client) => {
        const reply = await client.call('GET', await pathOf(client, reference, options, io))
        return { exit: EXIT.ok, reply, text: recordPage(reply) }
      }),
    )
    addressed(parser.command('list <what>'))
      .description(
        '`live` claims, or `expired` ones that ended without an outcome, oldest first; `dead-letters`, questions that wait for a decision; `decisions`, the newest ones of this sidecar',
      )
      .option('--before <cursor>', 'of dead letters: older ones, from where a list before ended')
      .action((what: string, options: Which & { readonly before?: string }) =>
        on(options, async (client) =>
          what === 'dead-letters' || what === 'decisions'
            ? entriesListed(client, what, options.before)
            : listed(client, what),
        ),
      )
    for (const [name, what] of [
      ['requeue', 'of a dead letter: it was NOT executed, the next request is a first attempt again'],
      ['discard', 'drop a dead letter; with --completed it WAS executed, and duplicates get 410'],
    ] as const) {
      const deadLetter = reasoned(addressed(parser.command(`${name} <id>`)).description(what))
      if (name === 'discard') deadLetter.option('--completed', 'it was executed: it never is again')
      deadLetter.action((id: string, options: Deciding) =>
        on(options, (client) => {
          const path = `/v1/operator/dead-letters/${encodeURIComponent(id)}/${name}`
          const { completed } = options
          const how = { reason: reasonGiven(options), ...(completed ? { completed } : {}) }
          return deadLetterDecided(name, options, (dryRun) =>
            client.call('POST', path, dryRun ? { ...how, dry_run: true } : how),
          )
        }),
      )
    }
    for (const [name, what] of [
      ['end', 'end a live claim: its holder is fenced, the next attempt is told it is a further one'],
      ['forget', 'forget it: the next request is a first attempt again'],
      ['ask', 'ask the application now what became of an expired attempt'],
    ] as const)
      decision(parser, name, what).action((reference: string | undefined, options: Deciding) =>
        on(options, (client) => decided(client, name, reference, options, io)),
      )
    decision(parser, 'complete', 'complete it by hand: duplicates get what you give')
      .option('--status <code>', 'of the answer')
      .option('--header <name: value>', 'of the answer; once for each', collected, [])
      .option('--body-file <path>', 'body of the answer; none where not given')
      .option('--result-file <path>', 'of a reservation: the JSON that duplicates are told')
      .option('--not-kept', 'it was executed, and its answer is lost: duplicates get 410')
      .action((reference: string | undefined, options: Deciding) =>
        on(options, (client) => decided(client, 'complete', reference, options, io)),
      )
  })

function addressed(command: Parser): Parser {
  return command
    .option('--operator <address>', 'of the operator listener; default: FENCEPOST_OPERATOR_LISTEN')
    .option('--token-file <path>', 'file with your token')
    .option('--json', 'print the answer of the listener')
}

function command(parser: Parser, usage: string, what: string): Parser {
  return addressed(parser.command(usage))
    .description(what)
    .option('--tenant <name>', 'whose it is; default: that of the configuration')
    .option('--api-version <name>', 'default: that of the configuration')
    .option('--path <path>', 'of the request, from its first slash, without its query', pathGiven)
    .option('--method <method>', 'of the request', 'POST')
    .option('--key <key>', 'its idempotency key')
    .option(
      '--principal <hash>',
      'whose request it was, as docs/reference/identity.md writes it; default: anonymous',
    )
    .option(
      '--client <name>',
      'in place of --principal: what names the client in the header or the claim that the route identifies it by',
    )
    .option(
      '--authorization-file <path>',
      'file with the client’s Authorization line, in place of --principal',
    )
    .option('--request-file <path>', 'file with the whole request as JSON, as for POST /v1/fingerprint')
    .option('--value <value>', 'a reserved value')
    .option('--entity <name>', 'a locked entity')
    .option('--reservation <id>', 'the id of a reservation')
}

function decision(parser: Parser, name: string, what: string): Parser {
  return reasoned(command(parser, `${name} [reference]`, what))
    .option(
      '--even-though <promise>',
      'live, completed or damaged: the promise that it breaks, said out',
      promiseGiven,
    )
    .option(
      '--fencing-token <token>',
      'the token that you saw; a record that has another one by now stays as it is',
      tokenGiven,
    )
}

function promiseGiven(text: string): string {
  if (!['live', 'completed', 'damaged'].includes(text))
    throw new InvalidArgumentError('Accepted is live, completed or damaged.')
  return text
}

function pathGiven(text: string): string {
  if (!/^\/[^?#\s]*$/.test(text))
    throw new InvalidArgumentError('Accepted is a path such as /payments, without a query.')
  return text
}

function tokenGiven(text: string): number {
  if (/^\d+$/.test(text) && Number.isSafeInteger(Number(text))) return Number(text)
  throw new InvalidArgumentError('A token is a whole number, as `fencepost records show` prints it.')
}

function collected(one: string, before: readonly string[]): readonly string[] {
  return [...before, one]
}

function listPrinted(all: readonly Reply[]): Printed {
  const text = all.length === 0 ? 'nothing\n' : recordLines(all)
  return { exit: all.length === 0 ? EXIT.failure : EXIT.ok, reply: { records: all }, text }
}

/** What may be missing must not look like nothing. */
const INCOMPLETE = 'too few nodes can be read: there may be records that are not listed\n'

/** A search that is not at its end is gone on with. */
async function found(
  client: OperatorClient,
  reference: string | undefined,
  options: Which,
  io: Io,
): Promise<readonly Reply[]> {
  const body = locator(reference, options, io)
  let cursor: unknown
  do {
    const reply = await client.call(
      'POST',
      `${RECORDS}/find`,
      cursor === undefined ? body : { ...body, cursor },
    )
    const all = reply.records as readonly Reply[]
    if (all.length > 0) return all
    cursor = reply.cursor
  } while (cursor !== undefined)
  return []
}

/** Nodes are walked one after the other, so a record may come twice. */
async function listed(client: OperatorClient, state: string): Promise<Printed> {
  if (state !== 'live' && state !== 'expired')
    throw new CallRefused(
      `${state} is no list; \`live\`, \`expired\`, \`dead-letters\` and \`decisions\` are`,
      EXIT.usage,
    )
  const all = new Map<unknown, Reply>()
  let cursor = ''
  for (;;) {
    const reply = await client.call('GET', `${RECORDS}?state=${state}${cursor}`)
    for (const one of reply.records as readonly Reply[]) all.set(one.record, one)
    if (typeof reply.cursor === 'string') {
      cursor = `&cursor=${reply.cursor}`
      continue
    }
    // By time and not by age: pages were looked at one after the other.
    const inOrder = [...all.values()].sort((a, b) => String(a.claimed_at).localeCompare(String(b.claimed_at)))
    if (reply.incomplete !== true) return listPrinted(inOrder)
    const text = recordLines(inOrder) + INCOMPLETE
    return { exit: EXIT.unavailable, reply: { records: inOrder, incomplete: true }, text }
  }
}

async function entriesListed(
  client: OperatorClient,
  what: 'dead-letters' | 'decisions',
  before: string | undefined,
): Promise<Printed> {
  if (what === 'decisions') {
    const reply = await client.call('GET', '/v1/operator/decisions')
    const decisions = reply.decisions as readonly Reply[]
    const note = reply.sampled === true ? 'Of those that went well only a sample is kept.\n' : ''
    return entriesPrinted(decisions, reply, `${decisionLines(decisions)}${note}`)
  }
  const cursor = before === undefined ? '' : `?cursor=${encodeURIComponent(before)}`
  const reply = await client.call('GET', `/v1/operator/dead-letters${cursor}`)
  const entries = reply.entries as readonly Reply[]
  const more = reply.cursor === undefined ? '' : `There are older ones: --before ${String(reply.cursor)}\n`
  return entriesPrinted(entries, reply, `${deadLetterLines(entries)}${more}`)
}

function entriesPrinted(all: readonly Reply[], reply: Reply, text: string): Printed {
  return all.length === 0 ? { exit: EXIT.failure, reply, text: 'nothing\n' } : { exit: EXIT.ok, reply, text }
}

async function pathOf(
  client: OperatorClient,
  reference: string | undefined,
  options: Which,
  io: Io,
): Promise<string> {
  const all = await found(client, reference, options, io)
  // A request is one record; its entities are locks beside it.
  const work = all.filter(({ sort }) => sort === 'work')
  const [only, ...more] = work.length > 0 ? work : all
  if (only === undefined) throw new CallRefused('nothing was found', EXIT.failure)
  if (more.length > 0)
    throw new CallRefused(`several records are meant; name one of them:\n${recordLines(work)}`, EXIT.usage)
  return `${RECORDS}/${encodeURIComponent(String(only.record))}`
}

async function decided(
  client: OperatorClient,
  name: string,
  reference: string | undefined,
  options: Deciding,
  io: Io,
): Promise<Printed> {
  const { evenThough, fencingToken: seen, yes } = options
  const reason = reasonGiven(options)
  const path = `${await pathOf(client, reference, options, io)}/${name}`
  const body = {
    reason,
    even_though: evenThough,
    fencing_token: seen,
    ...(name === 'complete' ? outcomeOf(options, io) : {}),
  }
  const plan = await client.call('POST', path, { ...body, dry_run: true })
  const { before, effects, requires } = plan as {
    before: Reply
    effects: readonly string[]
    requires?: string
  }
  const { fencing_token: token } = before
  const lines = effects.map((effect) => `  ${effect}\n`).join('')
  const said = requires === undefined || requires === evenThough
  if (!yes || !said) {
    // What happens to the record while somebody looks into the application must not be decided unseen.
    const under = token === undefined ? '' : `--fencing-token ${String(token)} `
    const how = `${under}${said ? '' : `--even-though ${requires} `}--yes`
    const text = `${name} ${recordLines([before])}would mean:\n${lines}Nothing was decided. To do it, add ${how}.\n`
    return { exit: EXIT.usage, reply: plan, text }
  }
  const reply = await client.call('POST', path, { ...body, fencing_token: token ?? seen })
  const verdict = reply.verdict === undefined ? '' : `the application says: ${String(reply.verdict)}\n`
  const note = reply.audited === false ? 'Only that it was begun is in the audit log.\n' : ''
  return {
    exit: EXIT.ok,
    reply,
    text: `${name}: done\n${lines}${verdict}${note}${recordLines([reply.after as Reply])}`,
  }
}
