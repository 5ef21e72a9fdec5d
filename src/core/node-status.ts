/** What is known of a node, and how it is called wherever a person reads of it. */

export type NodePlace = {
  /** As the list of its cluster has it: its address, or one of `FENCEPOST_REDIS_NODE_NAMES`. The same for all sidecars. */
  readonly name: string
  /** Where this process reaches it, without credentials. */
  readonly address: string
}

export function placeOf({ name, address }: NodePlace): string {
  return name === address ? name : `${name} (${address})`
}
