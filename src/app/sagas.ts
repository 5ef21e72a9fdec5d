/** The desk for sagas as the configuration wants it, or undefined where no database is configured. */

import type { Config } from '../config/load.ts'
import type { SagaDesk } from '../core/saga-desk.ts'
import { createSagaDesk } from '../saga/desk.ts'
import { openSagaKit } from '../saga/open-kit.ts'

export type OpenSagas = AsyncDisposable & { readonly desk: SagaDesk }

export function openSagas(config: Config, onError: (error: unknown) => void): OpenSagas | undefined {
  const { sagaDatabase, sagaSchema } = config
  if (sagaDatabase === undefined) return undefined
  const open = openSagaKit(sagaDatabase.content.trim(), sagaSchema)
  return { desk: createSagaDesk(open.kit, onError), [Symbol.asyncDispose]: () => open[Symbol.asyncDispose]() }
}
