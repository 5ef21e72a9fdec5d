/**
 * The application behind every proxy of a benchmark: as cheap as Node allows, so that the proxies in front of it are
 * measured. Reads the body, answers 201 with 200 bytes of JSON, after `?delayMs=`. A process of its own; prints its
 * address.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

const body = Buffer.from(JSON.stringify({ id: 'pay_1', status: 'captured', note: 'x'.repeat(158) }))

const server = createServer((req, res) => {
  const delayMs = Number(/[?&]delayMs=(\d+)/.exec(req.url ?? '')?.[1] ?? 0)
  req.resume()
  req.once('end', () => {
    const answer = () => {
      res.writeHead(req.method === 'GET' ? 200 : 201, {
        'content-type': 'application/json',
        'content-length': body.length,
      })
      res.end(body)
    }
    if (delayMs > 0) setTimeout(answer, delayMs)
    else answer()
  })
})
server.keepAliveTimeout = 120_000
server.listen(0, '127.0.0.1', () => console.log(`listening on ${(server.address() as AddressInfo).port}`))
