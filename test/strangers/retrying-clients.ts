/** Clients that send a request again by themselves, and what they do it with. */
import axios from 'axios'
import axiosRetry from 'axios-retry'
import got from 'got'
import ky from 'ky'
import OpenAI from 'openai'
import Stripe from 'stripe'
import { Agent, RetryAgent, request } from 'undici'
import { failing, json, type Stranger } from './both-ways.ts'

const ORDER = { item: 7, amount: '9.99' }

function stripe(origin: string): Stripe {
  const { hostname: host, port } = new URL(origin)
  return new Stripe('sk_test_4eC39HqLyjWDarjtT1zdp7dc', {
    host,
    port,
    protocol: 'http',
    maxNetworkRetries: 2,
    telemetry: false,
  })
}

const numbered: Stranger['application'] = () => (_, response, execution) =>
  json(response, 200, { id: `pi_${execution}`, object: 'payment_intent' })

const pays = async (origin: string, times: number) => {
  const { paymentIntents } = stripe(origin)
  const ids: string[] = []
  for (let time = 0; time < times; time += 1)
    ids.push((await paymentIntents.create({ amount: 999, currency: 'eur' })).id)
  return ids
}

async function withRetryAgent<T>(use: (dispatcher: RetryAgent) => Promise<T>): Promise<T> {
  const dispatcher = new RetryAgent(new Agent(), { maxRetries: 2, minTimeout: 1, maxTimeout: 1 })
  try {
    return await use(dispatcher)
  } finally {
    await dispatcher.close()
  }
}

export const RETRYING: readonly Stranger[] = [
  {
    client: 'got',
    does: 'puts again after 503',
    application: failing(503),
    act: (origin) =>
      got
        .put(`${origin}/orders/7`, {
          json: ORDER,
          retry: { limit: 2, calculateDelay: ({ computedValue }) => computedValue && 1 },
        })
        .json(),
    executed: 2,
  },
  {
    client: 'got',
    does: 'posts again with its key where the answer was lost',
    act: (origin) =>
      got
        .post(`${origin}/orders`, {
          json: ORDER,
          headers: { 'idempotency-key': 'order-7' },
          retry: { limit: 2, methods: ['POST'], calculateDelay: ({ computedValue }) => computedValue && 1 },
        })
        .json(),
    executed: 2,
    executedThough: 1,
  },
  {
    client: 'ky',
    does: 'posts again after 429',
    application: failing(429, { 'Retry-After': '0' }),
    act: (origin) =>
      ky
        .post(`${origin}/orders`, { json: ORDER, retry: { limit: 2, methods: ['post'], delay: () => 1 } })
        .json(),
    executed: 2,
  },
  {
    client: 'ky',
    does: 'posts a form, and its twin with another Accept',
    act: async (origin) => {
      const body = new URLSearchParams({ item: '7' })
      const first = await ky
        .post(`${origin}/orders`, { body, headers: { accept: 'application/json' } })
        .json()
      return [
        first,
        await ky.post(`${origin}/orders`, { body, headers: { accept: 'application/vnd.order+json' } }).json(),
      ]
    },
    executed: 2,
  },
  {
    client: 'axios with axios-retry',
    does: 'posts again after 503, 429 and a cut connection',
    application: () => (_, response, execution) => {
      if (execution === 1) response.writeHead(503).end()
      else if (execution === 2) response.writeHead(429, { 'Retry-After': '0' }).end()
      else json(response, 201, { execution })
    },
    act: async (origin) => {
      const instance = axios.create()
      axiosRetry(instance, { retries: 3, retryCondition: () => true, retryDelay: () => 1 })
      return (await instance.post(`${origin}/orders`, ORDER)).data
    },
    executed: 3,
  },
  {
    client: 'axios',
    does: 'posts two multipart forms that differ in a file',
    act: async (origin) => {
      const posted: unknown[] = []
      for (const text of ['one', 'two'])
        posted.push((await axios.postForm(`${origin}/files`, { file: Buffer.from(text) })).data)
      return posted
    },
    executed: 2,
  },
  {
    client: 'undici with its RetryAgent',
    does: 'gets the rest of an answer that broke off',
    application: () => (sent, response) => {
      const [range] = sent.values('range')
      const headers = { ETag: '"1"', 'Accept-Ranges': 'bytes' }
      if (range === undefined) {
        response.writeHead(200, { ...headers, 'Content-Length': '8' })
        response.write('half', () => response.destroy())
      } else
        response
          .writeHead(206, { ...headers, 'Content-Range': 'bytes 4-7/8', 'Content-Length': '4' })
          .end('rest')
    },
    act: async (origin) => {
      return withRetryAgent(async (dispatcher) =>
        (await request(`${origin}/file`, { dispatcher })).body.text(),
      )
    },
    executed: 2,
  },
  {
    client: 'undici with its RetryAgent',
    does: 'puts again where the answer was lost',
    act: async (origin) => {
      return withRetryAgent(
        async (dispatcher) =>
          (await request(`${origin}/orders/7`, { method: 'PUT', body: '{}', dispatcher })).statusCode,
      )
    },
    executed: 2,
    executedThough: 2,
  },
  {
    client: 'stripe',
    does: 'creates two equal payments',
    application: numbered,
    act: (origin) => pays(origin, 2),
    executed: 2,
  },
  {
    client: 'stripe',
    does: 'sends again with its key where the answer was lost',
    application: numbered,
    act: (origin) => pays(origin, 1),
    executed: 2,
    executedThough: 1,
  },
  {
    client: 'stripe',
    does: 'sends again after 429 and 500',
    application: () => (_, response, execution) => {
      if (execution < 3)
        json(
          response,
          execution === 1 ? 429 : 500,
          { error: { message: 'again' } },
          { 'Stripe-Should-Retry': 'true' },
        )
      else json(response, 200, { id: `pi_${execution}` })
    },
    act: (origin) => pays(origin, 1),
    executed: 3,
  },
  {
    client: 'openai',
    does: 'streams a completion, after 429',
    application: () => (_, response, execution) => {
      if (execution === 1)
        return void json(response, 429, { error: { message: 'again' } }, { 'Retry-After-Ms': '1' })
      response.writeHead(200, { 'Content-Type': 'text/event-stream' })
      for (const content of ['ta', 'da'])
        response.write(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content } }] })}\n\n`)
      response.end('data: [DONE]\n\n')
    },
    act: async (origin) => {
      const client = new OpenAI({ apiKey: 'k', baseURL: `${origin}/v1` })
      const stream = await client.chat.completions.create({
        model: 'm',
        messages: [{ role: 'user', content: 'sing' }],
        stream: true,
      })
      const texts: (string | null | undefined)[] = []
      for await (const { choices } of stream) texts.push(choices[0]?.delta.content)
      return texts
    },
    executed: 2,
  },
]
