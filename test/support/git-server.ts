/** Git's own server over HTTP, `git http-backend`, which is a CGI program, with one empty repository, `/shop.git`. */
import { execFile, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { listening } from './listening.ts'
import { requireProgram } from './programs.ts'

export type GitServer = AsyncDisposable & {
  readonly origin: string
  /** A folder for clones, removed at the end. */
  readonly folder: string
  /** As a new user of this machine, without any configuration. */
  git(args: readonly string[], cwd?: string): Promise<string>
}

export async function startGitServer(): Promise<GitServer> {
  const program = requireProgram('git')
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-git-'))
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_AUTHOR_NAME: 'a',
    GIT_AUTHOR_EMAIL: 'a@example.com',
    GIT_COMMITTER_NAME: 'a',
    GIT_COMMITTER_EMAIL: 'a@example.com',
  }
  const git = async (args: readonly string[], cwd = folder) =>
    (await promisify(execFile)(program, args, { cwd, env, timeout: 60_000 })).stdout.trim()
  await git(['init', '--quiet', '--bare', '--initial-branch=main', 'shop.git'])
  await git(['--git-dir=shop.git', 'config', 'http.receivepack', 'true'])

  const server = createServer((request, response) => {
    const { pathname, search } = new URL(request.url ?? '/', 'http://origin')
    const { headers } = request
    const backend = spawn(program, ['http-backend'], {
      env: {
        ...env,
        GIT_PROJECT_ROOT: folder,
        GIT_HTTP_EXPORT_ALL: '1',
        PATH_INFO: pathname,
        QUERY_STRING: search.slice(1),
        REQUEST_METHOD: request.method,
        CONTENT_TYPE: headers['content-type'],
        CONTENT_LENGTH: headers['content-length'],
        HTTP_CONTENT_ENCODING: headers['content-encoding'],
        GIT_PROTOCOL: headers['git-protocol']?.toString(),
        REMOTE_USER: 'a',
        REMOTE_ADDR: '127.0.0.1',
      },
    })
    backend.stdin.on('error', () => {})
    request.pipe(backend.stdin)
    const parts: Buffer[] = []
    backend.stdout.on('data', (part: Buffer) => parts.push(part))
    backend.once('close', () => {
      const answer = Buffer.concat(parts)
      const end = answer.indexOf('\r\n\r\n')
      const lines = answer.subarray(0, end).toString('latin1').split('\r\n')
      const pairs = lines.map((line) => line.split(/: (.*)/s).slice(0, 2) as [string, string])
      const status = pairs.find(([name]) => name.toLowerCase() === 'status')?.[1] ?? '200'
      for (const [name, value] of pairs) if (name.toLowerCase() !== 'status') response.setHeader(name, value)
      response.writeHead(Number.parseInt(status, 10)).end(answer.subarray(end + 4))
    })
  })
  const at = await listening(server)
  return {
    origin: at.origin,
    folder,
    git,
    [Symbol.asyncDispose]: async () => {
      await new Promise<void>((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      })
      await rm(folder, { recursive: true })
    },
  }
}
