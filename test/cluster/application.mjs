/**
 * The application of the cluster tests: it enters every execution into the books of the test, on the address of the node, and only
 * then answers. It listens on 127.0.0.1 alone, as the documents say, so that every request comes through fencepost.
 */
import { createServer, request } from 'node:http'

const BOOKS = { host: '10.99.0.1', port: 7000 }

function enter(key) {
  return new Promise((resolve, reject) => {
    const entry = request(
      { ...BOOKS, agent: false, method: 'POST', path: '/executed', headers: { key } },
      (answer) => {
        answer.resume().on('end', resolve)
      },
    )
    entry.on('error', reject).end()
  })
}

const server = createServer(async (incoming, response) => {
  if (incoming.method === 'GET') return response.writeHead(200).end('ok\n')
  incoming.resume()
  const pauseMs = Number(incoming.headers['x-pause-ms'] ?? 0)
  await enter(String(incoming.headers['idempotency-key']))
  setTimeout(
    () => response.writeHead(201, { 'content-type': 'application/json' }).end('{"paid":true}'),
    pauseMs,
  )
})
server.listen(3000, '127.0.0.1')
// As most frameworks do: what is under way is answered, nothing new is taken.
process.on('SIGTERM', () => server.close(() => process.exit(0)))
