/**
 * Turns at what is done once at a time: after a client's turn all others that wait have theirs, however many times the one asks.
 *
 * Owns the order and nothing of the work.
 */

export type Turns = {
  /** @param work never rejects */
  take<T>(client: string, work: () => Promise<T>): Promise<T>
}

export function createTurns(): Turns {
  /** In the order of their next turns; a client that waits for nothing is not there. */
  const waiting = new Map<string, (() => void)[]>()
  let isTaken = false

  function end(of: string): void {
    const more = waiting.get(of)
    // Whoever came meanwhile is before it.
    if (more !== undefined && waiting.delete(of)) waiting.set(of, more)
    const [next] = waiting
    isTaken = next !== undefined
    if (next === undefined) return
    const [client, begins] = next
    const begin = begins.shift()
    if (begins.length === 0) waiting.delete(client)
    begin?.()
  }

  return {
    take: async (client, work) => {
      if (isTaken)
        await new Promise<void>((begin) => {
          const own = waiting.get(client)
          if (own === undefined) waiting.set(client, [begin])
          else own.push(begin)
        })
      isTaken = true
      const done = await work()
      end(client)
      return done
    },
  }
}
