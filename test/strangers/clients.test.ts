/** Public clients, each directly and through the sidecar with the built-in policy: the same results, the same executions. */
import { describe, test } from 'vitest'
import { ASKED_AGAIN } from './asked-again-clients.ts'
import { runBothWays } from './both-ways.ts'
import { PROGRAMS } from './program-clients.ts'
import { PROTOCOLS } from './protocol-clients.ts'
import { RETRYING } from './retrying-clients.ts'

describe.each([
  ['that send again', RETRYING] as const,
  ['that are asked for another form', ASKED_AGAIN] as const,
  ['of protocols', PROTOCOLS] as const,
  ['that are programs', PROGRAMS] as const,
])('clients %s', (_, strangers) => {
  test.each(strangers)('$client $does', runBothWays)
})
