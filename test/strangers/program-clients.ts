/** Clients that are programs: of the command line, and of Python. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { findProgram, requireProgram, serverPrograms } from '../support/programs.ts'
import { failing, json, type Stranger } from './both-ways.ts'

const run = promisify(execFile)
const NO_PROXY = {
  ...process.env,
  http_proxy: '',
  HTTP_PROXY: '',
  XDG_CONFIG_HOME: '/nonexistent',
  LC_ALL: 'C.UTF-8',
}

async function printed(program: string, args: readonly string[]): Promise<string> {
  return (await run(program, args, { env: NO_PROXY, timeout: 60_000 })).stdout
}

const curl = (...args: string[]) =>
  printed(requireProgram('curl'), ['--silent', '--show-error', '--max-time', '30', ...args])
const http = (...args: string[]) =>
  printed(requireProgram('httpie'), ['--ignore-stdin', '--body', '--pretty=none', ...args])

/** That of the distribution, which has its packages. */
async function python(client: string, origin: string): Promise<unknown> {
  requireProgram('requests')
  requireProgram('httpx')
  const interpreter = findProgram(serverPrograms.python, '/usr/bin') ?? requireProgram('python')
  return JSON.parse(
    await printed(interpreter, ['-B', join(import.meta.dirname, 'clients.py'), client, origin]),
  )
}

async function withFile<T>(bytes: number, use: (path: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-'))
  try {
    const path = join(folder, 'file.bin')
    await writeFile(path, Buffer.alloc(bytes, 'x'))
    return await use(path)
  } finally {
    await rm(folder, { recursive: true })
  }
}

export const PROGRAMS: readonly Stranger[] = [
  {
    client: 'curl',
    does: 'posts JSON again after 503',
    application: failing(503),
    act: (origin) =>
      curl(
        '--retry',
        '2',
        '--retry-delay',
        '1',
        '--data',
        '{"item":7}',
        '--header',
        'Content-Type: application/json',
        `${origin}/orders`,
      ),
    executed: 2,
  },
  {
    client: 'curl',
    does: 'posts again with its key where the answer was lost',
    act: (origin) =>
      curl(
        '--retry',
        '2',
        '--retry-delay',
        '1',
        '--retry-all-errors',
        '--data',
        'item=7',
        '--header',
        'Idempotency-Key: order-7',
        `${origin}/orders`,
      ),
    executed: 2,
    executedThough: 1,
  },
  {
    client: 'curl',
    does: 'uploads 2 MB twice, which it announces with Expect',
    act: (origin) =>
      withFile(2_000_000, async (path) => {
        const post = () =>
          curl(
            '--header',
            'Expect: 100-continue',
            '--header',
            'Content-Type: application/octet-stream',
            '--data-binary',
            `@${path}`,
            `${origin}/files`,
          )
        return [await post(), await post(), await curl('--upload-file', path, `${origin}/files/1`)]
      }),
    executed: 3,
  },
  {
    client: 'curl',
    does: 'asks for one form in two languages and two forms',
    act: async (origin) => {
      const post = (...headers: string[]) =>
        curl(...headers.flatMap((one) => ['--header', one]), '--data', 'q=7', `${origin}/search`)
      return [
        await post('Accept-Language: de'),
        await post('Accept-Language: fr'),
        await post('Accept: text/csv'),
        await post('If-Match: "2"'),
      ]
    },
    executed: 4,
  },
  {
    client: 'wget',
    does: 'posts a form, and another',
    act: async (origin) => {
      const post = (data: string) =>
        printed(requireProgram('wget'), [
          '--quiet',
          '--output-document=-',
          '--tries=2',
          `--post-data=${data}`,
          `${origin}/orders`,
        ])
      return [await post('item=7'), await post('item=8')]
    },
    executed: 2,
  },
  {
    client: 'HTTPie',
    does: 'posts JSON, and a form with a file',
    act: (origin) =>
      withFile(1_000, async (path) => [
        await http('POST', `${origin}/orders`, 'item:=7'),
        await http('--form', 'POST', `${origin}/orders`, `file@${path}`),
      ]),
    executed: 2,
  },
  {
    client: 'requests',
    does: 'posts again with its key after 503 and 429',
    application: () => (_, response, execution) => {
      if (execution < 3) response.writeHead(execution === 1 ? 503 : 429, { 'Retry-After': '0' }).end()
      else json(response, 201, { execution })
    },
    act: (origin) => python('requests_retrying', origin),
    executed: 3,
  },
  {
    client: 'requests',
    does: 'posts again with its key where the answer was lost',
    act: (origin) => python('requests_retrying', origin),
    executed: 2,
    executedThough: 1,
  },
  {
    client: 'requests',
    does: 'orders the same for two users',
    application:
      () =>
      ({ target, body, values }, response, execution) => {
        const user = body.toString().split('=')[1]
        if (target === '/login') json(response, 200, {}, { 'Set-Cookie': `s=${user}` })
        else json(response, 201, { execution, by: values('cookie') })
      },
    act: (origin) => python('requests_session', origin),
    executed: 4,
  },
  {
    client: 'urllib3',
    does: 'posts a multipart form again after 503',
    application: failing(503),
    act: (origin) => python('urllib3_retrying', origin),
    executed: 2,
  },
  {
    client: 'HTTPX',
    does: 'posts streams, a file, and reads a stream',
    act: (origin) => python('httpx_streaming', origin),
    executed: 4,
  },
]
