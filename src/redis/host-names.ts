/**
 * Where the host names of nodes lead, asked of the system so that one name nobody answers for holds nothing else up.
 *
 * Node asks on two threads, for all that this process dials: nodes, the application, issuers of keys. A question that its
 * servers leave unanswered keeps one for ten seconds and more, and a node that is away is dialled again every second.
 * Two such names would keep both, and nothing could be dialled by its name any more, however well its own servers do.
 * So all nodes together ask one question at a time, and none about a name that is asked about already. A node that was
 * reached before is meanwhile dialled where its name led then: whoever answers there is inspected before it is used.
 *
 * Owns the questions under way and the last answers.
 */

import { type LookupAddress, lookup } from 'node:dns'

type Answer = { readonly error: NodeJS.ErrnoException | null; readonly addresses: readonly LookupAddress[] }

export type HostNames = {
  /** @param answered called once, with an error or with at least one address */
  addressesOf(host: string, answered: (answer: Answer) => void): void
}

/** @param ask the system, about one name; settles once */
export function createHostNames(ask: (host: string, answered: (answer: Answer) => void) => void): HostNames {
  const known = new Map<string, readonly LookupAddress[]>()
  const waiting = new Map<string, ((answer: Answer) => void)[]>()
  const questions: string[] = []
  let asking = false

  function next(): void {
    const host = asking ? undefined : questions.shift()
    if (host === undefined) return
    asking = true
    ask(host, (answer) => {
      asking = false
      if (answer.error === null) known.set(host, answer.addresses)
      // There is no such name any more. Any other error says that nobody answered.
      else if (answer.error.code === 'ENOTFOUND') known.delete(host)
      const dials = waiting.get(host) ?? []
      waiting.delete(host)
      next()
      for (const dial of dials) dial(lastKnown(host) ?? answer)
    })
  }

  function lastKnown(host: string): Answer | undefined {
    const addresses = known.get(host)
    return addresses === undefined ? undefined : { error: null, addresses }
  }

  function addressesOf(host: string, answered: (answer: Answer) => void): void {
    const dials = waiting.get(host)
    if (dials === undefined) {
      waiting.set(host, [answered])
      questions.push(host)
      next()
      return
    }
    // The dial before this one has waited in vain.
    const before = lastKnown(host)
    if (before === undefined) dials.push(answered)
    else queueMicrotask(() => answered(before))
  }

  return { addressesOf }
}

/** Of this process: its threads are as well. */
export const hostNames = createHostNames((host, answered) =>
  lookup(host, { all: true }, (error, addresses) => answered({ error, addresses: addresses ?? [] })),
)
