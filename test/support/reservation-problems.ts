/** How to reach each problem of the reservation API; those that it shares with the proxy are reached there. */
import { systemClock } from '../../src/system/clock.ts'
import { createAwayNodes } from './away-nodes.ts'
import { postedJson } from './post.ts'
import { startReservationApi, type TestApi, type TestApiOptions } from './reservation-api.ts'

async function asked(
  ask: (api: TestApi) => Promise<Response>,
  options: TestApiOptions = {},
): Promise<Response> {
  await using api = await startReservationApi(options)
  const response = await ask(api)
  // Read here: the connection ends with the API.
  return new Response(await response.arrayBuffer(), response)
}

function post(api: TestApi, path: string, body: unknown, headers: Record<string, string> = {}) {
  return postedJson(`${api.origin}${path}`, body, { ...headers })
}

const mine = { session_id: 'mine', reserved_value: 'v' }
const theirs = { session_id: 'theirs', reserved_value: 'v' }

export const reservationProblems = {
  'request-invalid': () => asked((api) => post(api, '/v1/reservations', { ...mine, surprise: 1 })),
  'reservation-id-invalid': () =>
    asked((api) => post(api, '/v1/reservations/r1_AAAA/extend', { fencing_token: 1 })),
  'reservation-lost': () =>
    asked(async (api) => {
      await using other = await startReservationApi()
      const { id, token } = await other.reserve(mine)
      return post(api, `/v1/reservations/${id}/extend`, { fencing_token: token })
    }),
  'token-required': () =>
    asked((api) => post(api, '/v1/reservations', mine), { options: { apiTokens: () => ['x'] } }),
  'page-refused': () =>
    asked((api) => post(api, '/v1/reservations', mine, { origin: 'https://evil.example' })),
  'call-unknown': () => asked((api) => post(api, '/v2/reservations', mine)),
  'media-type-unsupported': () =>
    asked((api) => post(api, '/v1/reservations', mine, { 'content-type': 'text/plain' })),
  'reservation-conflict': () =>
    asked(async (api) => {
      await api.reserve(mine)
      return post(api, '/v1/reservations', theirs)
    }),
  'reservation-duplicate': () =>
    asked(async (api) => {
      const { id, token } = await api.reserve(mine)
      await api.call(`/v1/reservations/${id}/complete`, { fencing_token: token, result: 1 })
      return post(api, '/v1/reservations', theirs)
    }),
  'session-reservations': () =>
    asked(
      async (api) => {
        await api.reserve(mine)
        return post(api, '/v1/reservations', { ...mine, reserved_value: 'another' })
      },
      { perSessionMax: 1 },
    ),
  'entity-busy': () =>
    asked(async (api) => {
      await api.reserve({ ...mine, entities: ['account-1'] })
      return post(api, '/v1/reservations', { ...theirs, reserved_value: 'w', entities: ['account-1'] })
    }),
  'lease-lost': () =>
    asked(async (api) => {
      const { id, token } = await api.reserve(mine)
      await api.call(`/v1/reservations/${id}/release`, { fencing_token: token })
      return post(api, `/v1/reservations/${id}/extend`, { fencing_token: token })
    }),
  fenced: () =>
    asked(async (api) => {
      const { id, token } = await api.reserve(mine)
      await api.call(`/v1/reservations/${id}/release`, { fencing_token: token })
      return post(api, `/v1/reservations/${id}/complete`, { fencing_token: token })
    }),
  'completion-undecided': () => {
    const { nodes, away } = createAwayNodes(systemClock)
    return asked(
      async (api) => {
        const { id, token } = await api.reserve(mine)
        away(3, 4)
        await api.call(`/v1/reservations/${id}/release`, { fencing_token: token })
        away()
        return post(api, `/v1/reservations/${id}/complete`, { fencing_token: token })
      },
      { nodes },
    )
  },
}
