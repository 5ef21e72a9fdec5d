/** Programs that each hold one lock, by library. Owns how they are started; what is asked of them is `lease-plays.ts`. */
import { join } from 'node:path'
import { startSidecar } from '../../test/support/sidecar.ts'
import { type LockProgram, startProgram, startRedisson, startRedsync } from './lock-programs.ts'

export type Holder = {
  ask(line: string): Promise<string>
  /** SIGSTOP and SIGCONT: a process that is suspended notices nothing. */
  suspend(): void
  resume(): void
}

export type Profile = {
  readonly name: string
  /** `undefined` where its program can't be built here. */
  readonly start: (urls: readonly string[], stack: AsyncDisposableStack) => Promise<LockProgram | undefined>
}

const peers = join(import.meta.dirname, '../peers')

export const PROFILES: readonly Profile[] = [
  { name: 'redsync 4.18.1 (Go)', start: async (urls) => startRedsync(urls) },
  { name: 'Redisson 4.7.0 multi-lock (Java)', start: async (urls) => startRedisson(urls, 'multi-lock') },
  { name: 'Redisson 4.7.0 RedLock, deprecated', start: async (urls) => startRedisson(urls, 'redlock') },
  {
    name: 'node-redlock 5.0.0-beta.2',
    start: async (urls) =>
      startProgram('redlock', process.execPath, [join(peers, 'redlock-holder.ts'), urls.join(',')]),
  },
  { name: 'fencepost', start: overReservations },
]

/** Each of our holders has a sidecar of its own, as pods have. */
async function overReservations(urls: readonly string[], stack: AsyncDisposableStack): Promise<LockProgram> {
  // The compilers of two languages may be at work beside it.
  const sidecar = await startSidecar(
    {
      FENCEPOST_REDIS_NODES: urls.join(','),
      // As long as the programs beside it wait for a silent node.
      FENCEPOST_NODE_DEADLINE: '500ms',
      FENCEPOST_CLAIM_BUDGET: '2s',
    },
    { startWithinMs: 120_000 },
  )
  stack.use(sidecar)
  return startProgram('fencepost', process.execPath, [join(peers, 'fencepost-holder.ts'), sidecar.api])
}

export type Holders = AsyncDisposable & {
  /** A program by itself: no two holders share a process, a connection or a sidecar. */
  open(): Promise<Holder | undefined>
}

export function openHolders(profile: Profile, urls: readonly string[]): Holders {
  const stack = new AsyncDisposableStack()
  return {
    async open() {
      const program = await profile.start(urls, stack)
      if (program === undefined) return undefined
      stack.use(program)
      // Its nodes may be taken away from now on.
      await program.ask('ready')
      return {
        ask: (line) => program.ask(line),
        suspend: () => process.kill(program.pid, 'SIGSTOP'),
        resume: () => process.kill(program.pid, 'SIGCONT'),
      }
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
