/** One reservation as its holder sees it, for bench/lease-profiles.ts: `node fencepost-holder.ts http://SIDECAR`. */
import { createClient, DuplicateError, type Reservation } from '@fencepost/client'
import { answerLines } from '../support/holder-lines.ts'

const url = process.argv[2] ?? ''
// One try, as the other programs make.
const client = createClient({ url, retryForMs: 0, callTimeoutMs: 10_000 })
let held: Reservation

await answerLines({
  ready: async () => 'ready',
  acquire: async (key = '', leaseMs = '') => {
    try {
      held = await client.reserve(key, { leaseMs: Number(leaseMs), heartbeat: false })
      return 'held'
    } catch (error) {
      if (!(error instanceof DuplicateError)) throw error
      return `refused: DuplicateError, with the result ${JSON.stringify(error.result)}`
    }
  },
  token: async () => String(held.fencingToken),
  believes: async () => (held.signal.aborted ? 'over: its signal is aborted' : 'held'),
  extend: async (leaseMs = '') => {
    await held.extend(Number(leaseMs))
    return 'extended'
  },
  release: async () => {
    await held.release()
    return 'released'
  },
  done: async () => {
    await held.complete({ payment: 'p-1' })
    return 'recorded'
  },
  // Past what the client checks by itself, as a holder that did not look.
  late: async () => {
    const response = await fetch(`${url}/v1/reservations/${held.id}/complete`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ fencing_token: held.fencingToken, result: 'late' }),
    })
    const { reservation_status, code } = (await response.json()) as Record<string, unknown>
    return `${response.status} ${reservation_status ?? code}`
  },
  read: async (key = '') => {
    const { state, remainingLeaseMs, result } = await client.read(key)
    return [
      state,
      ...(remainingLeaseMs === undefined ? [] : ['with the rest of its lease and its token']),
      ...(result === undefined ? [] : [`with ${JSON.stringify(result)}`]),
    ].join(', ')
  },
})
