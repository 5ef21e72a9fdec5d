// What a good engineer writes in an afternoon instead of running fencepost: Fastify, redlock over five nodes, undici, and
// the answer stored on all five. Connections are kept; `autopipeline` as the third argument has ioredis gather commands.
//
//     node naive-quorum.mjs UPSTREAM redis://…,redis://…,… [autopipeline]
//
// It is meant to be fast and fair. What it does not promise, and fencepost does:
//   - no fencing token: a holder that was suspended past its lease writes beside the next one
//   - an answer that reached fewer than three nodes is lost: nobody adopts it, and the request is executed again
//   - the lease is not renewed: work that takes longer than it is executed a second time
//   - a node that restarts empty votes at once, and may grant what it promised to another
//   - a hung node is waited for as long as ioredis waits: no deadline, no breaker
//   - a retry while the first try runs gets 409: nobody waits for the answer
//   - a crash between the application's answer and its record means a second execution, and nobody is told
//   - no limit on bodies or tenants, no metrics, no log, no drain, headers of answers stored as they come
import { createHash } from 'node:crypto'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import fastify from 'fastify'
import { Redis } from 'ioredis'

// Of the project itself: the very versions that the sidecar runs with.
const ours = createRequire(join(import.meta.dirname, '../../package.json'))
const { Pool } = ours('undici')
const { default: Redlock } = ours('redlock')

const [upstream, urls, mode] = process.argv.slice(2)
const LEASE_MS = 10_000
const RETENTION_MS = 86_400_000

const nodes = urls.split(',').map((url) => new Redis(url, { enableAutoPipelining: mode === 'autopipeline' }))
const majority = Math.floor(nodes.length / 2) + 1
const redlock = new Redlock(nodes, { retryCount: 0 })
redlock.on('error', () => {})
const application = new Pool(upstream, { connections: 256, pipelining: 1 })

/** Settles with the first `majority` answers, or fails when there cannot be as many. */
function quorum(calls) {
  return new Promise((resolve, reject) => {
    const values = []
    let failed = 0
    for (const call of calls)
      call.then(
        (value) => values.push(value) === majority && resolve(values),
        (error) => ++failed > nodes.length - majority && reject(error),
      )
  })
}

async function forward(request) {
  const {
    host,
    connection,
    'content-length': length,
    'transfer-encoding': chunked,
    ...headers
  } = request.headers
  const { method, url: path, body } = request
  const answer = await application.request({ method, path, headers, body })
  const { connection: c, 'keep-alive': k, 'transfer-encoding': t, ...kept } = answer.headers
  return { status: answer.statusCode, headers: kept, body: Buffer.from(await answer.body.arrayBuffer()) }
}

const send = (reply, { status, headers, body }) => reply.code(status).headers(headers).send(body)

async function once(request, reply) {
  const name = [request.method, request.url, request.headers['idempotency-key']].join('\n')
  const key = `naive:{${createHash('sha256').update(name).digest('hex')}}`
  const fingerprint = createHash('sha256')
    .update(request.body ?? '')
    .digest('hex')
  const replay = (found) => {
    const { of, ...answer } = JSON.parse(found)
    if (of !== fingerprint) return reply.code(422).send()
    return send(reply, { ...answer, body: Buffer.from(answer.body, 'base64') })
  }
  const read = async () => (await quorum(nodes.map((node) => node.get(key)))).find((value) => value !== null)
  const known = await read()
  if (known !== undefined) return replay(known)
  let lock
  try {
    lock = await redlock.acquire([`${key}:lock`], LEASE_MS)
  } catch {
    return reply.code(409).send()
  }
  const answer = await forward(request)
  const stored = JSON.stringify({ ...answer, body: answer.body.toString('base64'), of: fingerprint })
  await quorum(nodes.map((node) => node.set(key, stored, 'PX', RETENTION_MS)))
  lock.release().catch(() => {})
  return send(reply, answer)
}

const app = fastify({ logger: false, bodyLimit: 1 << 20 })
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
app.all('/*', async (request, reply) =>
  request.method === 'POST' && request.headers['idempotency-key'] !== undefined
    ? once(request, reply)
    : send(reply, await forward(request)),
)
await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`listening on ${app.server.address().port}`)
