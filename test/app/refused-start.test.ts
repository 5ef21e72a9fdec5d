/** A start that is refused, some of them after the nodes were dialled: the process says why, exits and does not linger. */
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { duringTests } from '../support/during-tests.ts'
import { listening } from '../support/listening.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { TestProcess } from '../support/processes.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const PASSWORD = 'a-password-of-a-node'

const servers = duringTests(() => startRedisServers(3))
const taken = duringTests(() => listening(createServer()))

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
        [`FENCEPOST_${listener}_LISTEN`]: `127.0.0.1:${taken.port}`,
      },
    })
    expect(await sidecar.exited).toMatchObject({ code: 78 })
    expect(sidecar.output).toMatch(/the .* listener could not be opened: .*EADDRINUSE/)
  },
)

test.each([['serve'], ['config', 'check']])(
  'with required TLS %s %s names all that would speak in clear text beyond this machine, and no password',
  async (...command) => {
    await using sidecar = new TestProcess(process.execPath, [MAIN_PROGRAM, ...command], {
      name: 'fencepost',
      env: {
        FENCEPOST_REQUIRE_TLS: 'on',
        FENCEPOST_REDIS_NODES: `redis://user:${PASSWORD}@redis-1.example,rediss://redis-2.example,redis://127.0.0.1`,
        FENCEPOST_UPSTREAM: 'http://application.example:3000',
        FENCEPOST_PROXY_LISTEN: 'unix:/tmp/never-opened.sock',
        FENCEPOST_ADMIN_LISTEN: '0.0.0.0:9090',
      },
    })
    expect(await sidecar.exited).toMatchObject({ code: 78 })
    const speaks = 'would speak in clear text beyond this machine, which FENCEPOST_REQUIRE_TLS refuses;'
    expect(sidecar.output.trimEnd().split('\n')).toEqual([
      'The configuration has 3 errors:',
      `  FENCEPOST_REDIS_NODES: redis://redis-1.example:6379 ${speaks} write rediss:// for each of them`,
      `  FENCEPOST_ADMIN_LISTEN: 0.0.0.0:9090 ${speaks} write 127.0.0.1:9090, or add admin to FENCEPOST_TLS_LISTENERS and give FENCEPOST_TLS_CERT_FILE and FENCEPOST_TLS_KEY_FILE`,
      `  FENCEPOST_UPSTREAM: http://application.example:3000 ${speaks} write https://application.example:3000, or the address of an application on this machine`,
    ])
  },
)
