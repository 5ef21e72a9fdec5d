/** How to reach each problem that only the operator API has. */
import { startOperatorApi } from './operator-api.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from './operator-caller.ts'
import { postedJson } from './post.ts'
import { keyOf } from './redis-cluster.ts'

type Api = Awaited<ReturnType<typeof startOperatorApi>>

async function asked(ask: (api: Api) => Promise<Response>): Promise<Response> {
  await using api = await startOperatorApi()
  const response = await ask(api)
  // Read here: the connection ends with the API.
  return new Response(await response.arrayBuffer(), response)
}

function post({ origin }: Api, path: string, body: unknown, token = OPERATE_TOKEN): Promise<Response> {
  return postedJson(`${origin}/v1/operator${path}`, body, { authorization: `Bearer ${token}` })
}

const at = (name: string, decision: string) => `/records/${encodeURIComponent(keyOf(name))}/${decision}`
const reason = 'ticket 4711'

export const operatorProblems = {
  'role-required': () => asked((api) => post(api, at('order', 'end'), { reason }, VIEW_TOKEN)),
  'record-unknown': () => asked((api) => post(api, '/records/find', { reference: '0'.repeat(64) })),
  'dead-letter-unknown': () => asked((api) => post(api, '/dead-letters/none/requeue', { reason })),
  'decision-refused': () => asked((api) => post(api, at('order', 'end'), { reason })),
  'promise-at-stake': () =>
    asked(async (api) => {
      await api.claim('order')
      return post(api, at('order', 'end'), { reason })
    }),
  'record-moved-on': () =>
    asked(async (api) => {
      await api.expire('order')
      return post(api, at('order', 'forget'), { reason, fencing_token: 1 })
    }),
  'decision-under-way': () =>
    asked(async (api) => {
      await api.expire('order')
      await api.lockDecision('order')
      return post(api, at('order', 'forget'), { reason })
    }),
}
