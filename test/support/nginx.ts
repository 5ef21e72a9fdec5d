/** nginx as a reverse proxy that nobody has told anything: what stands in front of a listener behind many an Ingress, or of an application. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

/**
 * @param target where it passes every request on to
 * @param told directives of its server, if it was told something after all
 */
export async function startNginx(
  target: string,
  told = '',
): Promise<AsyncDisposable & { readonly origin: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-nginx-'))
  const origin = `http://127.0.0.1:${await freePort()}`
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((of) => `${of}_temp_path ${of};`)
  const file = join(folder, 'nginx.conf')
  await writeFile(
    file,
    `daemon off; pid pid; events {}
     http {
       access_log off; ${temporary.join(' ')}
       server { listen ${new URL(origin).host}; ${told} location / { proxy_pass ${target}; } }
     }`,
  )
  const child = new TestProcess(requireProgram('nginx'), ['-p', folder, '-c', file, '-e', 'stderr'], {
    name: 'nginx',
  })
  const dispose = async () => {
    // Not SIGKILL: it would leave its workers behind.
    await child.end({ signal: 'SIGTERM' })
    await rm(folder, { recursive: true, force: true })
  }
  try {
    await child.until('an answer', async () => {
      const { body, status } = await fetch(origin)
      await body?.cancel()
      return status
    })
  } catch (cause) {
    await dispose()
    throw cause
  }
  return { origin, [Symbol.asyncDispose]: dispose }
}
