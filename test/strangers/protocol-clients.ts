/** Clients of protocols over HTTP: which operation a request is stands in a header, a query, a body of their own, or in another method. */
import { createClient as createClickHouse } from '@clickhouse/client'
import { InfluxDB, Point } from '@influxdata/influxdb-client'
import { request as octokit } from '@octokit/request'
import { Client as OpenSearch } from '@opensearch-project/opensearch'
import { PostgrestClient } from '@supabase/postgrest-js'
import { createTRPCClient, httpBatchLink } from '@trpc/client'
import { initTRPC } from '@trpc/server'
import { fetchRequestHandler } from '@trpc/server/adapters/fetch'
import { AwsClient } from 'aws4fetch'
import { GraphQLClient } from 'graphql-request'
import jayson from 'jayson'
import * as tus from 'tus-js-client'
import { createClient as createWebDav } from 'webdav'
import type { Respond } from '../support/application.ts'
import { json, type Stranger } from './both-ways.ts'

/** Real tRPC: each call of `add` is one more. */
function trpc() {
  const t = initTRPC.create()
  let total = 0
  return t.router({
    total: t.procedure.query(() => total),
    add: t.procedure
      .input((value) => value as number)
      .mutation(({ input }) => {
        total += input
        return total
      }),
  })
}

const trpcApplication: Stranger['application'] = () => {
  const router = trpc()
  return async (sent, response) => {
    const hasBody = sent.method === 'POST'
    const answer = await fetchRequestHandler({
      endpoint: '/trpc',
      router,
      req: new Request(`http://origin${sent.target}`, {
        method: sent.method,
        headers: sent.headers.map(([name, value]): [string, string] => [name, value]),
        ...(hasBody ? { body: new Uint8Array(sent.body) } : {}),
      }),
    })
    response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
  }
}

/** As much of tus 1.0 as an upload takes. */
const tusServer = (): Respond => {
  const lengths: number[] = []
  return ({ method, target, body, values }, response) => {
    const headers = { 'Tus-Resumable': '1.0.0' }
    if (method === 'POST') {
      lengths.push(0)
      return void response.writeHead(201, { ...headers, Location: `/files/${lengths.length}` }).end()
    }
    const at = Number(target.slice('/files/'.length)) - 1
    const offset = lengths[at] ?? 0
    if (method === 'PATCH' && Number(values('upload-offset')[0]) !== offset)
      return void response.writeHead(409, headers).end()
    lengths[at] = offset + body.length
    response
      .writeHead(method === 'PATCH' ? 204 : 200, { ...headers, 'Upload-Offset': String(lengths[at]) })
      .end()
  }
}

const upload = (origin: string) =>
  new Promise<string>((resolve, reject) => {
    const one = new tus.Upload(Buffer.alloc(250_000, 'x'), {
      endpoint: `${origin}/files`,
      chunkSize: 100_000,
      metadata: { filename: 'a.bin' },
      onSuccess: () => resolve(one.url ?? ''),
      onError: reject,
    })
    one.start()
  })

/** `PROPFIND` of one file. */
const MULTISTATUS = `<?xml version="1.0"?><d:multistatus xmlns:d="DAV:"><d:response><d:href>/b.txt</d:href><d:propstat><d:prop><d:getcontentlength>4</d:getcontentlength><d:resourcetype/></d:prop><d:status>HTTP/1.1 200 OK</d:status></d:propstat></d:response></d:multistatus>`

export const PROTOCOLS: readonly Stranger[] = [
  {
    client: 'tRPC',
    does: 'queries between its mutations, batched and not',
    application: trpcApplication,
    act: async (origin) => {
      const client = createTRPCClient<ReturnType<typeof trpc>>({
        links: [httpBatchLink({ url: `${origin}/trpc` })],
      })
      const before = await client.total.query()
      const added = await Promise.all([client.add.mutate(1), client.add.mutate(1)])
      return [before, added, await client.add.mutate(3), await client.total.query()]
    },
    executed: 4,
  },
  {
    client: 'graphql-request',
    does: 'mutates with other variables, and queries',
    application: () => (_, response, execution) => json(response, 200, { data: { order: execution } }),
    act: async (origin) => {
      const client = new GraphQLClient(`${origin}/graphql`)
      const mutation = 'mutation ($item: Int!) { order(item: $item) }'
      return [
        await client.request(mutation, { item: 1 }),
        await client.request(mutation, { item: 2 }),
        await client.request('{ order }'),
      ]
    },
    executed: 3,
  },
  {
    client: 'jayson',
    does: 'calls one method twice, and a batch',
    application:
      () =>
      ({ body }, response) => {
        const called = JSON.parse(body.toString()) as { id: string } | { id: string }[]
        const result = (one: { id: string }) => ({ jsonrpc: '2.0', id: one.id, result: 'done' })
        json(response, 200, Array.isArray(called) ? called.map(result) : result(called))
      },
    act: async (origin) => {
      const { hostname, port } = new URL(origin)
      const client = jayson.Client.http({ hostname, port: Number(port), path: '/rpc' })
      const call = (method: string) =>
        new Promise((resolve, reject) =>
          client.request(method, [1], (error: unknown, answer: { result: unknown }) =>
            error ? reject(error) : resolve(answer.result),
          ),
        )
      return [await call('pay'), await call('pay'), await call('refund')]
    },
    executed: 3,
  },
  {
    client: 'aws4fetch',
    does: 'calls two operations of DynamoDB with one body',
    application: () => (sent, response) => json(response, 200, { did: sent.values('x-amz-target')[0] }),
    act: async (origin) => {
      const aws = new AwsClient({
        accessKeyId: 'AKIDEXAMPLE',
        secretAccessKey: 'secret',
        region: 'eu-central-1',
        service: 'dynamodb',
      })
      const call = async (operation: string) => {
        const answer = await aws.fetch(`${origin}/`, {
          method: 'POST',
          body: JSON.stringify({ TableName: 'orders' }),
          headers: {
            'x-amz-target': `DynamoDB_20120810.${operation}`,
            'content-type': 'application/x-amz-json-1.0',
          },
        })
        return answer.json()
      }
      return [await call('DescribeTable'), await call('DeleteTable'), await call('CreateTable')]
    },
    executed: 3,
  },
  {
    client: 'octokit',
    does: 'opens an issue twice with other words, patches it, and asks whether it changed',
    application: () => (sent, response, execution) => {
      if (sent.values('if-none-match').length > 0) response.writeHead(304).end()
      else json(response, 200, { number: execution }, { ETag: '"1"' })
    },
    act: async (origin) => {
      const repo = { baseUrl: origin, owner: 'o', repo: 'r' }
      const open = async (title: string) =>
        (await octokit('POST /repos/{owner}/{repo}/issues', { ...repo, title })).data
      const numbers = [await open('one'), await open('two')]
      await octokit('PATCH /repos/{owner}/{repo}/issues/{issue_number}', {
        ...repo,
        issue_number: 1,
        state: 'closed',
      })
      const headers = { 'if-none-match': '"1"' }
      const unchanged = await octokit('GET /repos/{owner}/{repo}', { ...repo, headers }).catch(
        ({ status }) => status,
      )
      return [numbers, unchanged]
    },
    executed: 4,
  },
  {
    client: 'postgrest-js',
    does: 'inserts, upserts, counts and returns with one body',
    application: () => (sent, response, execution) =>
      json(response, 201, [
        { execution, prefer: sent.values('prefer'), profile: sent.values('content-profile') },
      ]),
    act: async (origin) => {
      type Schema = {
        Tables: { orders: { Row: Row; Insert: Row; Update: Row; Relationships: [] } }
        Views: Record<string, never>
        Functions: Record<string, never>
      }
      type Row = { id: number }
      const rows = (schema: 'public' | 'audit') =>
        new PostgrestClient<{ public: Schema; audit: Schema }, object, 'public' | 'audit'>(origin, {
          schema,
        }).from('orders')
      const row = { id: 7 }
      return [
        (await rows('public').insert(row).select()).data,
        (await rows('public').upsert(row).select()).data,
        (await rows('public').upsert(row, { ignoreDuplicates: true }).select()).data,
        (await rows('audit').insert(row).select()).data,
      ]
    },
    executed: 4,
  },
  {
    client: 'opensearch',
    does: 'writes the same lines in bulk twice, and indexes after 503',
    application: () => (_, response, execution) =>
      execution === 3
        ? json(response, 503, { error: 'busy' })
        : json(response, 200, { took: execution, errors: false, items: [] }),
    act: async (origin) => {
      const client = new OpenSearch({ node: origin, maxRetries: 2 })
      const body = [{ index: { _index: 'orders' } }, { item: 7 }]
      const wrote = [(await client.bulk({ body })).body.took, (await client.bulk({ body })).body.took]
      const indexed = await client.index({ index: 'orders', body: { item: 7 } })
      await client.close()
      return [wrote, indexed.body]
    },
    executed: 4,
  },
  {
    client: 'ClickHouse',
    does: 'inserts a stream of rows twice, and reads twice',
    application: () => (_, response, execution) =>
      json(response, 200, { data: [{ execution }], rows: 1, meta: [] }),
    act: async (origin) => {
      const client = createClickHouse({ url: origin })
      const insert = () => client.insert({ table: 'orders', values: [{ item: 7 }], format: 'JSONEachRow' })
      await insert()
      await insert()
      const read = async () => (await client.query({ query: 'SELECT 1', format: 'JSON' })).json()
      const both = [await read(), await read()]
      await client.close()
      return both
    },
    executed: 4,
  },
  {
    client: 'InfluxDB',
    does: 'writes the same points twice',
    application: () => (_, response) => void response.writeHead(204).end(),
    act: async (origin) => {
      for (let time = 0; time < 2; time += 1) {
        const writer = new InfluxDB({ url: origin, token: 't' }).getWriteApi('o', 'b', 'ns')
        for (let item = 0; item < 200; item += 1)
          writer.writePoint(new Point('orders').intField('item', item).timestamp(new Date(0)))
        await writer.close()
      }
    },
    executed: 2,
  },
  {
    client: 'tus',
    does: 'uploads the same file twice',
    application: tusServer,
    act: async (origin) => [await upload(origin), await upload(origin)],
    executed: 8,
  },
  {
    client: 'webdav',
    does: 'puts, moves, copies, looks and deletes',
    application:
      () =>
      ({ method, body }, response) => {
        if (method === 'PROPFIND')
          response.writeHead(207, { 'Content-Type': 'application/xml' }).end(MULTISTATUS)
        else if (method === 'GET') response.writeHead(200).end('text')
        else response.writeHead(method === 'DELETE' ? 204 : 201, { 'X-Length': String(body.length) }).end()
      },
    act: async (origin) => {
      const client = createWebDav(origin)
      await client.putFileContents('/a.txt', 'text')
      await client.moveFile('/a.txt', '/b.txt')
      await client.copyFile('/b.txt', '/c.txt')
      await client.createDirectory('/d')
      const found = [
        await client.exists('/b.txt'),
        await client.getFileContents('/b.txt', { format: 'text' }),
      ]
      await client.deleteFile('/c.txt')
      return found
    },
    executed: 7,
  },
]
