/** Public clients, each directly and through the sidecar with the built-in policy: the same results, the same executions. */
import { beforeAll, describe, test } from 'vitest'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'
import { ASKED_AGAIN } from './asked-again-clients.ts'
import { runBothWays } from './both-ways.ts'
import { COMPILED, compileClients } from './compiled-clients.ts'
import { PROGRAMS } from './program-clients.ts'
import { PROTOCOLS } from './protocol-clients.ts'
import { RETRYING } from './retrying-clients.ts'

beforeAll(compileClients, FETCH_MS_MAX)

describe.each([
  ['that send again', RETRYING] as const,
  ['that are asked for another form', ASKED_AGAIN] as const,
  ['of protocols', PROTOCOLS] as const,
  ['that are programs', PROGRAMS] as const,
  ['that are compiled', COMPILED] as const,
])('clients %s', (_, strangers) => {
  test.each(strangers)('$client $does', runBothWays)
})
