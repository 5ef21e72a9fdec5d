/** What is going on now: the nodes in their seats, the requests of this sidecar, and what is wrong. Live. */

import type { Overview } from '../http/operator/overview-schemas.ts'
import { Chart } from './chart.tsx'
import { useLive } from './live.ts'
import { Badge, Facts, Failure, Heading, Time } from './pieces.tsx'
import type { Session } from './session.ts'
import { SlowCommandsOfNodes } from './slow-commands.tsx'
import { duration, milliseconds, visible } from './words.ts'

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
          [
            'Quarantine',
            quarantine === undefined
              ? undefined
              : quarantine === 0
                ? 'over; copying'
                : `${duration(quarantine)} left`,
          ],
          ['Address', node.address === node.name ? undefined : visible(node.address)],
          ['Why', node.reason === undefined ? undefined : visible(node.reason)],
          ['To do', node.remedy === undefined ? undefined : visible(node.remedy)],
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
