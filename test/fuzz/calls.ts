/**
 * Mutated calls of the reservation API. What must always hold: it lives, it reports no failure, every answer is well
 * formed, and a reservation of another holder is never ended by a call that does not know its token.
 */
import type { Random } from '../../src/core/clock.ts'
import { mutate, pick, restructure } from '../support/mutations.ts'
import { openWire } from '../support/proxy.ts'
import { startReservationApi } from '../support/reservation-api.ts'

export type CallReport = {
  readonly calls: number
  readonly reserved: number
  readonly broken: readonly string[]
}

const post = (path: string, body: string) =>
  `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`

export async function fuzzCalls(of: {
  readonly calls: number
  readonly atOnce: number
  readonly random: Random
}): Promise<CallReport> {
  const { random } = of
  await using api = await startReservationApi({
    limits: { headersTimeoutMs: 800, requestTimeoutMs: 800, keepAliveTimeoutMs: 50 },
    keepEvents: false,
  })
  const held = await api.reserve({ session_id: 'holder', reserved_value: 'held', lease: '60s' })
  const port = Number(new URL(api.origin).port)
  const broken: string[] = []
  let reserved = 0
  const seeds: readonly ((index: number) => string)[] = [
    (index) => post('/v1/reservations', `{"session_id":"s","reserved_value":"v-${index}","lease":"1s"}`),
    (index) =>
      post('/v1/reservations', `{"session_id":"s","reserved_values":["a-${index}","b"],"wait":"1ms"}`),
    () =>
      post(`/v1/reservations/${held.id}/complete`, `{"fencing_token":${held.token + 1},"result":{"a":1}}`),
    () => post(`/v1/reservations/${held.id}/release`, '{"fencing_token":1}'),
    () => post(`/v1/reservations/r1_AAAA/extend`, '{"fencing_token":1,"lease":"1s"}'),
    () => 'GET /v1/reservations?value=held HTTP/1.1\r\nHost: localhost\r\n\r\n',
    () =>
      post(
        '/v1/fingerprint',
        '{"request":{"method":"POST","path":"/things","headers":{"idempotency-key":"k"},"body":"{}"}}',
      ),
  ]

  async function one(index: number): Promise<void> {
    const seed = pick(random, seeds)(index)
    const bytes = random.fraction() < 0.3 ? restructure(seed, random) : mutate(seed, random)
    await using wire = await openWire(port)
    wire.send(bytes)
    await wire.closed
    const received = wire.received()
    reserved += received.split('HTTP/1.1 201 ').length - 1
    if (received !== '' && !/^HTTP\/1\.1 [1-5]\d\d /.test(received))
      broken.push(`${JSON.stringify(bytes)} was answered ${JSON.stringify(received.slice(0, 200))}`)
    if (received.includes('HTTP/1.1 500 ')) broken.push(`${JSON.stringify(bytes)} was answered 500`)
  }

  for (let from = 0; from < of.calls && broken.length < 10; from += of.atOnce) {
    const count = Math.min(of.atOnce, of.calls - from)
    await Promise.all(Array.from({ length: count }, (_, index) => one(from + index)))
    // Renewed here, so that it is held however long the run takes.
    const still = await api.call(`/v1/reservations/${held.id}/extend`, {
      fencing_token: held.token,
      lease: '60s',
    })
    // A busy machine may take longer to send it than such a short limit allows.
    if (still.status !== 200 && still.status !== 408)
      broken.push(`the reservation of another holder was ended: ${JSON.stringify(still.body)}`)
  }
  broken.push(...api.failures.map((failure) => `the API failed: ${String(failure)}`))
  return { calls: of.calls, reserved, broken }
}
