/** Envoy's side of the gRPC listeners, for `fencepost probe`. Loads gRPC only where it is called: that takes a tenth of a second. */

import type { EnvoyCaller } from '../http/envoy/caller.ts'

/** @param token of the gateway listeners, where they ask for one */
export async function openEnvoyCaller(token: string | undefined): Promise<EnvoyCaller> {
  const { createEnvoyCaller } = await import('../http/envoy/caller.ts')
  return createEnvoyCaller(token)
}
