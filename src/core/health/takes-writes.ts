/** A node as it is shown: `voting` with a reason only where it refuses every write, so that no claim can count on it. */

export type ShownNode = { readonly state: string; readonly reason?: string }

export function takesWrites({ state, reason }: ShownNode): boolean {
  return state === 'voting' && reason === undefined
}

export function refusesWrites({ state, reason }: ShownNode): boolean {
  return state === 'voting' && reason !== undefined
}
