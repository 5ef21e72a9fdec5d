/** Clients that an answer asks for another form of the same request, and that comply. */
import {
  AnonymousAuthenticationProvider,
  HttpMethod,
  RequestInformation,
} from '@microsoft/kiota-abstractions'
import {
  FetchRequestAdapter,
  KiotaClientFactory,
  MiddlewareFactory,
} from '@microsoft/kiota-http-fetchlibrary'
import { JsonParseNodeFactory, JsonSerializationWriterFactory } from '@microsoft/kiota-serialization-json'
import { wrapFetchWithPayment, x402Client } from '@x402/fetch'
import * as oauth from 'oauth4webapi'
import * as openid from 'openid-client'
import { posted } from '../support/post.ts'
import { json, type Stranger } from './both-ways.ts'

const CLIENT = { client_id: 'shop' }

/** A token endpoint that wants the nonce of its last answer in the proof (RFC 9449, section 8). */
const wantsNonce: Stranger['application'] = () => (sent, response) => {
  const { origin } = new URL('http://origin')
  if (sent.target.startsWith('/.well-known/'))
    return json(response, 200, {
      issuer: `http://${sent.values('host')[0]}/`,
      token_endpoint: `http://${sent.values('host')[0]}/token`,
    })
  const [proof = ''] = sent.values('dpop')
  const { nonce } = JSON.parse(Buffer.from(proof.split('.')[1] ?? '', 'base64url').toString() || '{}') as {
    nonce?: string
  }
  if (nonce !== 'n-1') return json(response, 400, { error: 'use_dpop_nonce' }, { 'DPoP-Nonce': 'n-1' })
  json(response, 200, { access_token: origin, token_type: 'DPoP', expires_in: 60 })
}

const REQUIREMENTS = {
  scheme: 'exact',
  network: 'test:1',
  amount: '1',
  asset: 'coin',
  payTo: 'shop',
  maxTimeoutSeconds: 60,
  extra: {},
} as const

export const ASKED_AGAIN: readonly Stranger[] = [
  {
    client: 'Kiota',
    does: 'posts in clear what was refused with gzip',
    application: () => (sent, response, execution) => {
      if (sent.values('content-encoding').length > 0)
        response.writeHead(415, { 'Accept-Encoding': 'identity' }).end()
      else json(response, 201, { execution, body: sent.body.toString() })
    },
    act: async (origin) => {
      const adapter = new FetchRequestAdapter(
        new AnonymousAuthenticationProvider(),
        new JsonParseNodeFactory(),
        new JsonSerializationWriterFactory(),
        KiotaClientFactory.create(undefined, MiddlewareFactory.getPerformanceMiddlewares()),
      )
      adapter.baseUrl = origin
      const order = new RequestInformation(HttpMethod.POST, '{+baseurl}/orders')
      order.pathParameters = { baseurl: origin }
      order.setStreamContent(new TextEncoder().encode('{"item":7}').buffer, 'application/json')
      const answered = await adapter.sendPrimitive<ArrayBuffer>(order, 'ArrayBuffer', undefined)
      return Buffer.from(answered ?? new ArrayBuffer()).toString()
    },
    executed: 2,
  },
  {
    client: 'oauth4webapi',
    does: 'asks for a token again with the nonce for its proof',
    application: wantsNonce,
    act: async (origin) => {
      const server = { issuer: origin, token_endpoint: `${origin}/token` }
      const DPoP = oauth.DPoP({}, await oauth.generateKeyPair('ES256'))
      const granted = async () => {
        const answer = await oauth.clientCredentialsGrantRequest(
          server,
          CLIENT,
          oauth.ClientSecretPost('s'),
          {},
          {
            DPoP,
            [oauth.allowInsecureRequests]: true,
          },
        )
        return (await oauth.processClientCredentialsResponse(server, CLIENT, answer)).token_type
      }
      return granted().catch((error) => {
        if (oauth.isDPoPNonceError(error)) return granted()
        throw error
      })
    },
    executed: 2,
  },
  {
    client: 'openid-client',
    does: 'asks for a token again with the nonce for its proof, by itself',
    application: wantsNonce,
    act: async (origin) => {
      const config = await openid.discovery(new URL(`${origin}/`), 'shop', 's', undefined, {
        execute: [openid.allowInsecureRequests],
      })
      const DPoP = openid.getDPoPHandle(config, await openid.randomDPoPKeyPair())
      return (await openid.clientCredentialsGrant(config, {}, { DPoP })).token_type
    },
    executed: 3,
  },
  {
    client: 'x402',
    does: 'pays, and posts again',
    application: () => (sent, response, execution) => {
      if (sent.values('payment-signature').length > 0) return json(response, 201, { execution })
      const required = {
        x402Version: 2,
        resource: { url: 'http://origin/orders' },
        accepts: [REQUIREMENTS],
        error: 'pay',
      }
      json(
        response,
        402,
        {},
        { 'PAYMENT-REQUIRED': Buffer.from(JSON.stringify(required)).toString('base64') },
      )
    },
    act: async (origin) => {
      const payer = x402Client.fromConfig({
        schemes: [
          {
            network: 'test:1',
            client: {
              scheme: 'exact',
              createPaymentPayload: async (x402Version) => ({ x402Version, payload: { signature: 'paid' } }),
            },
          },
        ],
        spendControls: false,
      })
      const answer = await wrapFetchWithPayment(fetch, payer)(`${origin}/orders`, {
        method: 'POST',
        body: '{"item":7}',
        headers: { 'content-type': 'application/json' },
      })
      return [answer.status, await answer.json()]
    },
    executed: 2,
  },
  {
    client: 'fetch',
    does: 'logs in after 401, and posts again',
    application: () => (sent, response, execution) => {
      if (sent.values('authorization').length > 0) json(response, 201, { execution })
      else response.writeHead(401, { 'WWW-Authenticate': 'Basic realm="shop"' }).end()
    },
    act: async (origin) => {
      const post = (headers: Record<string, string>) =>
        posted(`${origin}/orders`, { 'content-type': 'application/json', ...headers }, '{}')
      const { status } = await post({})
      return [status, await (await post({ authorization: 'Basic YTpi' })).json()]
    },
    executed: 2,
  },
]
