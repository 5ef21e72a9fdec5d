/**
 * The young generation of V8's heap, in which everything is created: small until the first request, then as large as Node was told.
 *
 * V8 doubles it when as much has survived in it as it holds. A start leaves much behind, so 5 MiB of every idle sidecar were memory that it does
 * not need. With requests a small one costs: collections come more often, and what is under way survives them. So with the first requests it grows to its
 * largest size in one step (docs/internals/performance.md).
 *
 * Node warns of flags that change while V8 runs. This one is a number that V8 reads when it decides how far to grow, and nowhere else.
 */
import { setFlagsFromString } from 'node:v8'
import type { CoreEvent } from '../core/events.ts'

/** From its smallest size, 1 MiB, to the largest that V8 chooses by itself. */
const GROWTH_WITH_REQUESTS = 32

/** To be called before the sidecar's code is loaded, which leaves most behind. */
export function keepYoungGenerationSmall(): void {
  growBy(1)
}

/** A subscriber to all events. */
export function youngGenerationGrows(): (event: CoreEvent) => void {
  let grows = false
  return ({ kind }) => {
    if (grows || kind !== 'decided') return
    grows = true
    growBy(GROWTH_WITH_REQUESTS)
  }
}

function growBy(factor: number): void {
  setFlagsFromString(`--semi-space-growth-factor=${factor}`)
}
