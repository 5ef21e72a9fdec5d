/** What the nodes themselves found slow, to be held against the timeline of a request. */

import type { SlowCommands } from '../http/operator/overview-schemas.ts'
import { Answer, TableOf, Time, useAnswer } from './pieces.tsx'
import type { Session } from './session.ts'
import { milliseconds, visible } from './words.ts'

export function SlowCommandsOfNodes({ session: { api } }: { readonly session: Session }) {
  const [loaded, again] = useAnswer(() => api.get<SlowCommands>('/slow-commands'), 'slow-commands')
  return (
    <section class="panel" aria-labelledby="slow-commands">
      <h2 id="slow-commands">Slow commands</h2>
      <p class="hint">
        The ten newest entries of each node's slow log, with its own time in whole seconds. Where none is
        beside a slow request, the node did not stand still: look at the network.
      </p>
      <Answer of={loaded}>{(known) => <Newest of={known} />}</Answer>
      <p>
        <button type="button" onClick={again}>
          Look again
        </button>
      </p>
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
