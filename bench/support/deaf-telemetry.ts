/** Telemetry that counts, traces and writes nothing, for what is measured without its cost. */
import type { openTelemetry, Telemetry } from '../../src/app/telemetry.ts'
import { SILENT } from '../../src/core/events.ts'
import { UNTRACED } from '../../src/core/tracing.ts'
import { createLog } from '../../src/observe/log.ts'

/** @param level of the log, the only thing that it says */
export function deafTelemetry(level: string): typeof openTelemetry {
  return async (_, { instance, logTo }): Promise<Telemetry> => ({
    log: createLog({ level, instance, target: logTo, onLost: () => {} }),
    events: SILENT,
    tracing: UNTRACED,
    tracedNode: (node) => node,
    subscribe: () => {},
    readiness: ({ nodes }) => ({ ready: true, reasons: [], nodes }),
    verdict: () => ({ ready: true, reasons: [], failing: new Set(), sentences: new Map(), p95Ms: undefined }),
    scrape: async () => ({ contentType: 'text/plain', text: '' }),
    start: () => {},
    [Symbol.asyncDispose]: async () => {},
  })
}
