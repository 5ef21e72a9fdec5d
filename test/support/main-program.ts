/**
 * The sidecar that tests start. Within a run of the tests it is the program that `bundled-sidecar.ts` has made of the sources, as
 * production runs it: it starts in a third of the processor time. Elsewhere (`npm run faults`, `npm run bench`) it is the sources.
 */
import { fileURLToPath } from 'node:url'

export const MAIN_PROGRAM =
  process.env.TESTED_SIDECAR ?? fileURLToPath(new URL('../../src/main.ts', import.meta.url))
