/** A start that is refused after the nodes were dialled: the process exits and does not linger. */
import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'

let servers: RedisServers
let taken: Server
let port: number

beforeAll(async () => {
  servers = await startRedisServers(3)
  taken = createServer()
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
  const address = taken.address()
  port = typeof address === 'object' && address !== null ? address.port : 0
})
afterAll(async () => {
  taken.close()
  await servers[Symbol.asyncDispose]()
})

test.each(['ADMIN', 'PROXY'])(
  'serve whose %s port is taken says so and exits with the code of a wrong configuration',
  async (listener) => {
    await using sidecar = new TestProcess(process.execPath, [MAIN_PROGRAM, 'serve'], {
      name: 'fencepost serve',
      env: {
        FENCEPOST_REDIS_NODES: servers.nodesSetting,
        FENCEPOST_UPSTREAM: 'http://127.0.0.1:1',
        FENCEPOST_ADMIN_LISTEN: '127.0.0.1:0',
        FENCEPOST_API_LISTEN: '127.0.0.1:0',
        FENCEPOST_GATEWAY_LISTEN: '127.0.0.1:0',
        FENCEPOST_GATEWAY_GRPC_LISTEN: '127.0.0.1:0',
        FENCEPOST_PROXY_LISTEN: '127.0.0.1:0',
        [`FENCEPOST_${listener}_LISTEN`]: `127.0.0.1:${port}`,
      },
    })
    expect(await sidecar.exited).toMatchObject({ code: 78 })
    expect(sidecar.output).toMatch(/the .* listener could not be opened: .*EADDRINUSE/)
  },
)
