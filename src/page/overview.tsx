/** What is going on now: the nodes in their seats, the requests of this sidecar, and what is wrong. Live. */

import type { Overview, SlowCommands } from '../http/operator/overview-schemas.ts'
import type { Session } from './api.ts'
import { useLive } from './live.ts'
import { Answer, Badge, Facts, Failure, Heading, LookAgain, TableOf, Time, useAnswer } from './pieces.tsx'
import { duration, milliseconds, said, visible } from './words.ts'

export function OverviewView({ session }: { readonly session: Session }) {
  const { known, trouble } = useLive<Overview>(session, '/overview')
  const overview = known?.value
  return (
    <>
      <Heading title="Overview">Overview</Heading>
      {trouble === undefined ? undefined : <Failure error={trouble} />}
      {overview === undefined ? (
        <p role="status">Looking …</p>
      ) : (
        <>
          <p class="hint">
            As <strong>{visible(overview.instance)}</strong> sees it, <Time at={overview.at} />
            {trouble === undefined ? ', live.' : '; the stream is interrupted.'}
          </p>
          <Wrong overview={overview} />
          {overview.quorums.map((quorum) => (
            <Seats
              key={quorum.group ?? ''}
              quorum={quorum}
              nodes={overview.nodes.filter(({ group }) => group === quorum.group)}
            />
          ))}
          <Requests overview={overview} />
          <NearMisses overview={overview} />
          <SlowCommandsOfNodes session={session} />
        </>
      )}
    </>
  )
}

function Wrong({ overview: { wrong } }: { readonly overview: Overview }) {
  return (
    <section class={wrong.length === 0 ? 'panel' : 'panel wrong'} aria-labelledby="wrong">
      <h2 id="wrong">{wrong.length === 0 ? 'Nothing is wrong now' : 'Wrong now'}</h2>
      <div role="status">
        {wrong.length === 0 ? undefined : (
          <ul>
            {wrong.map(({ what, runbook }) => (
              <li key={what}>
                {visible(what)}{' '}
                <a href={runbook} target="_blank" rel="noreferrer noopener">
                  Runbook
                  <span class="unseen"> for: {visible(what)} (opens a new tab)</span>
                </a>
              </li>
            ))}
          </ul>
        )}
      </div>
    </section>
  )
}

type Node = Overview['nodes'][number]
type SeatsProps = { readonly quorum: Overview['quorums'][number]; readonly nodes: readonly Node[] }

function Seats({ quorum, nodes }: SeatsProps) {
  const { group, voting, required, margin } = quorum
  const title = `quorum-${group ?? ''}`
  return (
    <section class="panel" aria-labelledby={title}>
      <h2 id={title}>Nodes{group === undefined ? '' : ` of ${visible(group)}`}</h2>
      <ul class="numbers">
        <Figure value={`${voting} of ${quorum.nodes}`} name="votes" />
        <Figure value={String(required)} name="are a majority" />
        <Figure
          value={margin < 0 ? 'lost' : String(margin)}
          name={margin < 0 ? 'the quorum' : 'may be lost'}
          tone={margin < 0 ? 'bad' : margin === 0 ? 'warn' : 'good'}
        />
      </ul>
      <ul class="seats">
        {nodes.map((node) => (
          <Seat key={node.name} node={node} />
        ))}
      </ul>
    </section>
  )
}

function Seat({ node }: { readonly node: Node }) {
  const { clock, memory_share: memory, quarantine_remaining_ms: quarantine } = node
  const votes = node.state === 'voting'
  return (
    <li class={votes ? 'seat' : 'seat differs'}>
      <h3>{visible(node.name)}</h3>
      <p>
        <Badge word={node.state} /> {votes ? '' : 'no vote'}
      </p>
      <Facts
        of={[
          ['Since', node.since === undefined ? undefined : <Time at={node.since} />],
          ['Quarantine', said(quarantine, (ms) => (ms === 0 ? 'over; copying' : `${duration(ms)} left`))],
          ['Address', node.address === node.name ? undefined : visible(node.address)],
          ['Why', said(node.reason, visible)],
          ['To do', said(node.remedy, visible)],
          [
            'Clock',
            clock === undefined
              ? undefined
              : `${clock.offset_ms >= 0 ? '+' : '−'}${milliseconds(Math.abs(clock.offset_ms))} (± ${milliseconds(clock.uncertainty_ms)})${clock.skewed ? ', too far off' : ''}`,
          ],
          ['Memory', memory === undefined ? undefined : `${Math.round(memory * 100)} %`],
          ['Started', node.started_at === undefined ? undefined : <Time at={node.started_at} />],
        ]}
      />
    </li>
  )
}

const FATES: readonly {
  readonly fate: keyof Overview['requests']['per_second']
  readonly name: string
  readonly hint: string
}[] = [
  { fate: 'created', name: 'created', hint: 'executed for the first time' },
  { fate: 'replayed', name: 'replayed', hint: 'duplicates that got the recorded answer' },
  { fate: 'waiting', name: 'waiting', hint: 'duplicates that were told that the first is under way' },
  { fate: 'refused', name: 'refused', hint: 'not executed' },
]

/** The number beside a chart is the mean of so many seconds. */
const MEAN_SECONDS = 10

function Requests({ overview: { requests, claims } }: { readonly overview: Overview }) {
  return (
    <section class="panel" aria-labelledby="requests">
      <h2 id="requests">Requests of this sidecar, the last {duration(requests.seconds * 1_000)}</h2>
      <ul class="numbers">
        <Figure value={String(requests.in_flight)} name="in flight" />
        <Figure value={milliseconds(requests.p50_ms)} name="p50, requests" />
        <Figure value={milliseconds(requests.p95_ms)} name="p95, requests" />
        <Figure value={milliseconds(claims.p50_ms)} name="p50, claims" />
        <Figure value={milliseconds(claims.p95_ms)} name="p95, claims" />
      </ul>
      <ul class="charts">
        {FATES.map(({ fate, name, hint }) => {
          const values = requests.per_second[fate]
          const mean = values.slice(-MEAN_SECONDS).reduce((sum, one) => sum + one, 0) / MEAN_SECONDS
          return (
            <li key={fate}>
              <h3>
                {mean.toFixed(1)} a second {name}
              </h3>
              <Chart values={values} about={`${name}, by the second`} />
              <p class="hint">{hint}</p>
            </li>
          )
        })}
      </ul>
    </section>
  )
}

function NearMisses({ overview: { near_misses: all } }: { readonly overview: Overview }) {
  if (all.length === 0) return undefined
  return (
    <section class="panel" aria-labelledby="near-misses">
      <h2 id="near-misses">Near misses: executed, and equal but for some headers or cookies</h2>
      <ul>
        {all.map((says) => (
          <li key={says}>{visible(says)}</li>
        ))}
      </ul>
    </section>
  )
}

type FigureProps = { readonly value: string; readonly name: string; readonly tone?: 'good' | 'warn' | 'bad' }

function Figure({ value, name, tone }: FigureProps) {
  return (
    <li>
      <strong class={tone ?? ''}>{value}</strong> <span>{name}</span>
    </li>
  )
}

const WIDTH = 240
const HEIGHT = 48

/** A line over the last seconds, small enough to stand beside its number. Its text says what the line shows. */
function Chart({ values, about }: { readonly values: readonly number[]; readonly about: string }) {
  const most = Math.max(...values, 0)
  const step = WIDTH / Math.max(1, values.length - 1)
  const heightOf = (value: number) => HEIGHT - 1 - (most === 0 ? 0 : (value / most) * (HEIGHT - 4))
  const line = values.map((value, at) => `${(at * step).toFixed(1)},${heightOf(value).toFixed(1)}`).join(' ')
  return (
    <svg
      class="chart"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={`${about}: at most ${most}, now ${values.at(-1) ?? 0}`}
    >
      <polygon points={`0,${HEIGHT} ${line} ${WIDTH},${HEIGHT}`} />
      <polyline points={line} />
    </svg>
  )
}

/** What the nodes themselves found slow, to be held against the timeline of a request. */
function SlowCommandsOfNodes({ session: { api } }: { readonly session: Session }) {
  const [loaded, again] = useAnswer(() => api.get<SlowCommands>('/slow-commands'), 'slow-commands')
  return (
    <section class="panel" aria-labelledby="slow-commands">
      <h2 id="slow-commands">Slow commands</h2>
      <p class="hint">
        The ten newest entries of each node's slow log, with its own time in whole seconds. Where none is
        beside a slow request, the node did not stand still: look at the network.
      </p>
      <Answer of={loaded}>{(known) => <Newest of={known} />}</Answer>
      <LookAgain onClick={again} />
    </section>
  )
}

function Newest({ of: { commands, nodes } }: { readonly of: SlowCommands }) {
  const silent = nodes.filter(({ known }) => !known).map(({ node }) => visible(node))
  return (
    <>
      {commands.length === 0 ? (
        <p>No slow log has an entry.</p>
      ) : (
        <TableOf caption="Slow commands, newest first" heads={['At', 'Node', 'Command', 'Took']}>
          {commands.map(({ at, node, command, duration_ms: took }, index) => (
            <tr key={`${node}-${at}-${index}`}>
              <td>
                <Time at={at} />
              </td>
              <td>{visible(node)}</td>
              <td>{visible(command)}</td>
              <td>{milliseconds(took)}</td>
            </tr>
          ))}
        </TableOf>
      )}
      {silent.length === 0 ? undefined : (
        <p>Not known of {silent.join(', ')}: no answer, or no right to ask.</p>
      )}
    </>
  )
}
