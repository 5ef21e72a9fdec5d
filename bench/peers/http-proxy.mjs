// A bare @fastify/http-proxy in front of the application, as its README sets it up, without logs.
import httpProxy from '@fastify/http-proxy'
import fastify from 'fastify'

const app = fastify({ logger: false })
app.register(httpProxy, { upstream: process.argv[2], undici: { connections: 256, pipelining: 1 } })
await app.listen({ host: '127.0.0.1', port: 0 })
console.log(`listening on ${app.server.address().port}`)
