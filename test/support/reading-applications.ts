/**
 * Applications on the servers that read a request in ways of their own: Puma (Rack), PHP and gunicorn (Flask). Each tells what it read, and
 * gives every execution another `id`.
 */
import { join } from 'node:path'
import { freePort } from './free-port.ts'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

const folder = join(import.meta.dirname, 'reading-applications')

export const READING_APPLICATIONS = ['puma', 'php', 'gunicorn'] as const
export type ReadingApplicationName = (typeof READING_APPLICATIONS)[number]

export type Read = {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly mode: string | null
  readonly query: readonly unknown[]
  readonly form: readonly unknown[]
}

export type ReadingApplication = AsyncDisposable & { readonly origin: string }

const ARGUMENTS: Readonly<Record<ReadingApplicationName, (at: string) => readonly string[]>> = {
  puma: (at) => [
    '--bind',
    `tcp://${at}`,
    '--threads',
    '1:4',
    '--environment',
    'production',
    join(folder, 'config.ru'),
  ],
  php: (at) => ['-S', at, '-t', folder],
  gunicorn: (at) => ['--bind', at, '--chdir', folder, 'application:app'],
}

export async function startReadingApplication(name: ReadingApplicationName): Promise<ReadingApplication> {
  // Its module for Python is no program of its own.
  if (name === 'gunicorn') requireProgram('flask')
  const at = `127.0.0.1:${await freePort()}`
  const server = new TestProcess(requireProgram(name), ARGUMENTS[name](at), {
    name,
    cwd: folder,
    env: { PYTHONDONTWRITEBYTECODE: '1' },
  })
  const origin = `http://${at}`
  try {
    await server.http(`${origin}/`, 201)
  } catch (cause) {
    await server[Symbol.asyncDispose]()
    throw cause
  }
  return { origin, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}
