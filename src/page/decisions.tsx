/** The newest decisions of the sidecar that serves the page: what it answered lately, and about which record. */

import type { RecentDecisions } from '../http/operator/schemas.ts'
import { Answer, TableOf, Time, useAnswer } from './pieces.tsx'
import { linkTo } from './route.ts'
import type { Session } from './session.ts'
import { visible } from './words.ts'

export function DecisionsView({ session }: { readonly session: Session }) {
  const [loaded, again] = useAnswer(() => session.api.get<RecentDecisions>('/decisions'), 'decisions')
  return (
    <section class="panel" aria-labelledby="decisions">
      <h2 id="decisions">What this sidecar just answered</h2>
      <p>
        <button type="button" onClick={again}>
          Look again
        </button>
      </p>
      <Answer of={loaded}>
        {({ decisions, sampled }) => (
          <>
            <p class="hint">
              Other sidecars have their own.{' '}
              {sampled ? 'Of requests that went well only a sample is kept; refusals are all here.' : ''}
            </p>
            {decisions.length === 0 ? (
              <p role="status">There is none.</p>
            ) : (
              <Decisions decisions={decisions} />
            )}
          </>
        )}
      </Answer>
    </section>
  )
}

function Decisions({ decisions }: Pick<RecentDecisions, 'decisions'>) {
  return (
    <TableOf
      caption={`The newest ${decisions.length}, newest first`}
      heads={['When', 'Decision', 'Status', 'Route', 'Tenant', 'Record']}
    >
      {decisions.map((one) => (
        <tr key={one.instance ?? `${one.at} ${one.lock_id}`}>
          <td>
            <Time at={one.at} />
          </td>
          <td>{one.decision.replaceAll('_', ' ')}</td>
          <td>{one.status}</td>
          <td>{visible(one.route ?? '')}</td>
          <td>{visible(one.tenant ?? '')}</td>
          <td>
            {one.record === undefined ? (
              ''
            ) : (
              <a href={linkTo({ view: 'record', record: one.record })}>
                <code>{one.record.slice(-64, -48)}</code>
              </a>
            )}
          </td>
        </tr>
      ))}
    </TableOf>
  )
}
