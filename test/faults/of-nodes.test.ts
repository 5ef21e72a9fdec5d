import { expect, test } from 'vitest'
import { allVote } from './of-nodes.ts'
import { NODES } from './stage.ts'

/** Whether {@link allVote} accepts nodes that show these incarnations, while every sidecar counts all votes. */
async function isContent(incarnations: readonly string[]): Promise<boolean> {
  let content = false
  const stage = {
    admin: incarnations.map((incarnation, index) => ({
      info: async () => `# Server\r\nrun_id:run${index}\r\n`,
      get: async () => incarnation,
      dbsize: async () => 0,
    })),
    sidecars: [{}, {}],
    votingNodes: async () => NODES,
  }
  const demand = async (_: string, __: number, condition: () => Promise<boolean>) => {
    content = await condition()
  }
  await allVote({ stage, demand } as unknown as Parameters<typeof allVote>[0])
  return content
}

const own = (index: number) => `1:run${index}:nonce:1795328836950`

test('a fault waits until each node itself has joined, even before sidecars notice that one forgot', async () => {
  const incarnations = Array.from({ length: NODES }, (_, index) => own(index))
  expect(await isContent(incarnations)).toBe(true)
  // F19 over in a tenth of a second: the node has the incarnation of the node whose data it took.
  expect(await isContent(incarnations.with(2, own(0)))).toBe(false)
})
