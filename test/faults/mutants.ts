/**
 * The fourteen broken builds: copies of `src/` with one rule of the protocol taken out, each killed by a named checker.
 *
 * One text of a file is replaced, or two where a rule is enforced twice (`kill.ts`). Owns the list, and imports nothing that runs: who
 * breaks a module reads it first. The simulation has its own mutants of
 * rules in the core (`test/simulation/mutants.ts`); these are whole sidecars on real nodes, with the rules in Lua among
 * them.
 */

import type { TrialName } from './trials.ts'

export type Replacement = { readonly file: string; readonly from: string; readonly to: string }

export type Mutant = Replacement & {
  readonly name: string
  /** What the build does wrong. */
  readonly does: string
  /** Where a rule is enforced in two places. */
  readonly also?: Replacement
  readonly trial: TrialName
  /** One of these checkers must notice. */
  readonly killedBy: readonly string[]
  /** Whether Porcupine must reject its history, or why that is not to be seen in it. */
  readonly porcupine: 'rejects' | { readonly notVisible: string }
}

export const MUTANTS: readonly Mutant[] = [
  {
    name: 'release-without-owner',
    does: 'deletes a lease without asking whose it is',
    file: 'src/redis/lua/release.lua',
    from: "if record.state ~= 'C' or record.fence ~= token or record.owner ~= owner then",
    to: "if record.state ~= 'C' then",
    trial: 'stale-release',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'no-validity-check',
    does: 'hands out a claim that took longer to get than it lasts, and begins work under it',
    file: 'src/core/claims/claim.ts',
    from: '  if (leftMs > 0) {',
    to: '  if (lease.attempt > 0) {',
    // Checked once more before the work begins.
    also: {
      file: 'src/core/claims/lease-renewer.ts',
      from: "return this.#state === 'keeping' && this.#keepableMs() > 0",
      to: 'return true',
    },
    trial: 'dead-grant',
    killedBy: ['carried-out-after-recorded', 'token-order'],
    porcupine: 'rejects',
  },
  {
    name: 'quorum-of-two',
    does: 'counts two votes of five as a majority',
    file: 'src/redlock/rounds.ts',
    from: 'return round.decided(await vote(round))',
    to: 'return round.decided((await vote(round)) || (await round.settled, round.votesFor >= 2))',
    trial: 'split',
    killedBy: ['interval-overlap', 'dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'naive-token',
    does: 'grants a token below one that was granted before',
    file: 'src/redis/lua/claim.lua',
    from: "if record.state == 'R' then\n    if token <= record.fence then return { STALE, record.fence } end",
    to: "if record.state == 'R' then",
    trial: 'clock-behind',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'token-is-the-clock',
    does: 'proposes the time as the token, whatever was seen',
    file: 'src/core/record/token.ts',
    from: 'this.#last = Math.max(near, this.#last + 1, this.#above(above))',
    to: 'this.#last = tokenAt(this.#clock.wallMs() + 0 * above)',
    trial: 'clock-behind',
    killedBy: ['progress'],
    porcupine: { notVisible: 'nothing is granted: a refusal breaks no order' },
  },
  {
    name: 'record-before-the-end',
    does: 'records an answer whose body was cut',
    file: 'src/upstream/application.ts',
    from: 'return failureOf(error instanceof Error ? error : new Error(String(error)), true)',
    to: "return error === undefined ? failureOf(new Error(''), true) : { kind: 'answered', response: { status, headers: headers.filter(([name]) => name !== 'content-length'), body: kept.whole() } }",
    trial: 'half-answer',
    killedBy: ['whole-answers'],
    porcupine: 'rejects',
  },
  {
    name: 'unconditional-completion',
    does: 'writes an outcome over whatever stands',
    file: 'src/redis/lua/complete.lua',
    from: 'local takes = token > record.fence or ours',
    to: 'local takes = true',
    trial: 'late-completion',
    killedBy: ['dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'single-node-fallback',
    does: 'falls back to what can be reached when the quorum is lost',
    file: 'src/core/claims/claim.ts',
    from: '  const refusal = await explain(round, request)\n',
    to: "  const refusal = await explain(round, request)\n  if (refusal.kind === 'unavailable' && refusal.answered > 0 && round.answers.some((answer) => answer?.kind === 'granted')) return settleGrant(proposal, round, ports)\n",
    trial: 'split',
    killedBy: ['interval-overlap', 'counting'],
    porcupine: 'rejects',
  },
  {
    name: 'no-release-between-retries',
    does: 'leaves what a lost round was granted',
    file: 'src/core/claims/claim.ts',
    from: '  await releaseGranted(proposal, round, ports)\n  return stepAfter(refusal, round, ports)',
    to: '  return stepAfter(refusal, round, ports)',
    trial: 'leftovers',
    killedBy: ['progress'],
    porcupine: { notVisible: 'what stays behind only refuses, until its lease ends' },
  },
  {
    name: 'renewal-past-larger-fence',
    does: 'renews a lease although a larger token was granted',
    file: 'src/redis/lua/renew.lua',
    from: 'if token < record.fence then return { LOST, record.fence } end',
    to: '',
    trial: 'stale-renewal',
    killedBy: ['fenced-mutex'],
    porcupine: 'rejects',
  },
  {
    name: 'validity-by-wall-clock',
    does: 'measures validity on the wall clock alone',
    file: 'src/core/claims/lease.ts',
    from: 'return Math.min(lease.validUntilMonoMs - at.monoMs, lease.validUntilWallMs - at.wallMs)',
    to: 'return lease.validUntilWallMs - at.wallMs',
    trial: 'dead-grant',
    killedBy: ['carried-out-after-recorded', 'token-order'],
    porcupine: 'rejects',
  },
  {
    name: 'no-tenant-in-the-key',
    does: 'keys records without the tenant',
    file: 'src/core/request/identity.ts',
    from: 'encoded.push(name)',
    to: "encoded.push(part === 'tenant' ? 'x' : name)",
    trial: 'two-tenants',
    killedBy: ['scope', 'dedup-register'],
    porcupine: 'rejects',
  },
  {
    name: 'both-of-one-name',
    does: 'lets two servers vote under one name',
    file: 'src/core/nodes/rejoin.ts',
    from: 'const other = this.#continuity.duplicateOf(member)\n',
    to: 'const other = options.watchOnly === true ? this.#continuity.duplicateOf(member) : undefined\n',
    // Of two that vote one is given up.
    also: {
      file: 'src/core/nodes/node-history.ts',
      from: 'return other?.lives === true && yieldsTo(',
      to: "return other?.nonce === '' && yieldsTo(",
    },
    trial: 'two-servers',
    killedBy: ['dedup-register', 'counting'],
    porcupine: 'rejects',
  },
  {
    name: 'trusted-return',
    does: 'counts a server that has its name back with the data of before',
    file: 'src/core/nodes/node-history.ts',
    from: 'wasUnused(usedMs(other))',
    to: 'wasUnused(0 * usedMs(other))',
    trial: 'name-back',
    killedBy: ['dedup-register', 'counting'],
    porcupine: 'rejects',
  },
]
