/** `fencepost-saga serve` as a process, on a database and with the operators of `operator-caller.ts`. */
import { join } from 'node:path'
import { operatorTokensFile } from './operator-caller.ts'
import { TestProcess } from './processes.ts'

export const SAGA_COMMAND = join(import.meta.dirname, '../../packages/saga/src/command/main.ts')

export type SagaServer = AsyncDisposable & {
  /** Of the page and the calls. */
  readonly origin: string
  readonly metrics: string
  readonly process: TestProcess
  /** The file of the operators. */
  readonly operators: string
}

export async function startSagaServer(
  databaseUrl: string,
  schema: string,
  args: readonly string[] = [],
): Promise<SagaServer> {
  await using stack = new AsyncDisposableStack()
  const tokens = stack.use(operatorTokensFile())
  const given = ['--schema', schema, '--operators', tokens.path]
  const ports = ['--listen', '127.0.0.1:0', '--metrics-listen', '127.0.0.1:0']
  const child = stack.use(
    new TestProcess(process.execPath, [SAGA_COMMAND, 'serve', ...given, ...ports, ...args], {
      name: 'fencepost-saga',
      env: { DATABASE_URL: databaseUrl },
    }),
  )
  const [, origin = '', metrics = ''] = await child.line(/^sagas on (\S+)\/, metrics on (\S+)\/metrics$/)
  const owned = stack.move()
  return {
    origin,
    metrics,
    process: child,
    operators: tokens.path,
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
