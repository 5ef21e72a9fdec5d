/** What a scenario is, and how one is run: with traffic around it, whose books decide. */
import type { Reader } from './reader.ts'
import type { Release } from './release.ts'
import type { Clients } from './traffic.ts'
import type { Books } from './traffic-process.ts'

export const REQUESTS_PER_SECOND = 50
/** Traffic before and after what is done, so that both sides of it are in the books. */
const AROUND_MS = 5_000

export type Surroundings = {
  readonly release: Release
  readonly clients: Clients
  readonly reader: Reader
  readonly tell: (line: string) => void
}

export type Scenario = {
  readonly name: string
  /** A sentence for the table. */
  readonly what: string
  /** Requests whose first answer was no success; beyond it the scenario has failed. */
  readonly failedMax: number
  /** The fewest votes that a sidecar may see; absent where it is not the point. */
  readonly votesMin?: number
  /** Without traffic around it: it says by itself what it found. */
  readonly quiet?: true
  /** It installs what it needs, by the lines of the documents. The release of the other scenarios is not there. */
  readonly onPages?: true
  /** @returns what it found, for the table; throws where something is not as it has to be */
  readonly run: (surroundings: Surroundings) => Promise<string>
}

export type Row = {
  readonly name: string
  readonly what: string
  readonly found: string
  readonly seconds: number
  readonly books: Books | undefined
  readonly faults: readonly string[]
}

export async function runScenario(scenario: Scenario, surroundings: Surroundings): Promise<Row> {
  const { release, clients, tell } = surroundings
  tell(`\n${scenario.name}: ${scenario.what}`)
  await release.settled()
  await release.cluster.forgetUnansweredConnections()
  const fromMs = performance.now()
  const traffic = scenario.quiet !== true
  if (traffic) clients.begin(await release.serviceAddress(), REQUESTS_PER_SECOND, await release.sidecars())
  const faults: string[] = []
  let found = ''
  let seconds = 0
  try {
    if (traffic) await pause(AROUND_MS)
    const doneMs = performance.now()
    found = await scenario.run(surroundings)
    seconds = (performance.now() - doneMs) / 1_000
    await release.settled()
    if (traffic) await pause(AROUND_MS)
  } catch (error) {
    seconds = (performance.now() - fromMs) / 1_000
    faults.push((error as Error).message)
  }
  const books = traffic ? await clients.end() : undefined
  if (books !== undefined) faults.push(...faultsIn(books, scenario))
  tell(`  ${found}`)
  if (books !== undefined) tell(`  ${JSON.stringify({ ...books, notes: undefined })}`)
  for (const note of books?.notes ?? []) tell(`    ${note}`)
  for (const fault of faults) tell(`  FAULT ${fault}`)
  return { name: scenario.name, what: scenario.what, found, seconds, books, faults }
}

/** What the books of a scenario say against it, as sentences; none where they are as they have to be. */
export function faultsIn(
  books: Books,
  { failedMax, votesMin }: Pick<Scenario, 'failedMax' | 'votesMin'>,
): string[] {
  const failed = Object.values(books.failed).reduce((sum, count) => sum + count, 0)
  return [
    ...(books.requests === 0 ? ['no request was sent'] : []),
    ...(books.executedTwice.length > 0 ? [`executed twice: ${books.executedTwice.join(', ')}`] : []),
    ...(books.lost.length > 0 ? [`lost: ${books.lost.join(', ')}`] : []),
    ...(failed > failedMax ? [`${failed} requests failed at first, and ${failedMax} may`] : []),
    ...(votesMin !== undefined && (books.fewestVotes ?? 0) < votesMin
      ? [`a sidecar saw ${books.fewestVotes ?? 'no'} votes, and ${votesMin} are needed`]
      : []),
  ]
}

/** The traffic goes on: time is what is wanted here, and no condition is waited for. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
