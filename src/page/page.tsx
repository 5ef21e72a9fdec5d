/** The whole page: who reads it, where the reader is, and the view of that place. */

import { useEffect, useState } from 'preact/hooks'
import type { Me } from '../http/operator/overview-schemas.ts'
import type { Session } from './api.ts'
import { createApi, sentenceOf, TOKEN } from './api.ts'
import { AuditView } from './audit.tsx'
import { FindView } from './find.tsx'
import { OverviewView } from './overview.tsx'
import { Button, Heading } from './pieces.tsx'
import { RecordView } from './record.tsx'
import { linkTo, type Route, routeIn } from './words.ts'

export function Page() {
  const [session, setSession] = useState<Session>()
  const [lost, setLost] = useState(false)
  const route = useRoute()
  const end = (because: 'lost' | 'wish') => {
    setSession(undefined)
    setLost(because === 'lost')
  }
  return (
    <>
      {/* A link would have to change the address, which says where the reader is. */}
      <button type="button" class="skip" onClick={() => document.getElementById('main')?.focus()}>
        To the content
      </button>
      <header>
        <span class="brand">fencepost</span>
        {session === undefined ? undefined : (
          <>
            <Menu route={route} />
            <span class="who">
              {session.operator.name} ({session.operator.role}) on {session.operator.instance}{' '}
              <Button onClick={() => end('wish')}>Sign out</Button>
            </span>
          </>
        )}
      </header>
      <main id="main" tabIndex={-1}>
        {session === undefined ? (
          <SignIn wasLost={lost} onSession={setSession} onLost={() => end('lost')} />
        ) : (
          <View route={route} session={session} />
        )}
      </main>
    </>
  )
}

function View({ route, session }: { readonly route: Route; readonly session: Session }) {
  switch (route.view) {
    case 'overview':
      return <OverviewView session={session} />
    case 'find':
      return <FindView session={session} />
    case 'record':
      return <RecordView key={route.record} record={route.record} session={session} />
    case 'audit':
      return <AuditView session={session} />
  }
}

const PLACES = [
  ['find', 'Find', ['find', 'record']],
  ['overview', 'Overview', ['overview']],
  ['audit', 'Audit', ['audit']],
] as const

function Menu({ route }: { readonly route: Route }) {
  return (
    <nav aria-label="Views">
      {PLACES.map(([view, name, views]) => (
        <a
          key={view}
          href={linkTo({ view })}
          {...((views as readonly string[]).includes(route.view) ? { 'aria-current': 'page' as const } : {})}
        >
          {name}
        </a>
      ))}
    </nav>
  )
}

type SignInProps = {
  /** The token that was typed before is no longer accepted. */
  readonly wasLost: boolean
  readonly onSession: (session: Session) => void
  readonly onLost: () => void
}

function SignIn({ wasLost, onSession, onLost }: SignInProps) {
  const [fault, setFault] = useState<string>()
  const submit = async (event: SubmitEvent) => {
    event.preventDefault()
    const form = event.currentTarget as HTMLFormElement
    const token = String(new FormData(form).get('token') ?? '').trim()
    if (!TOKEN.test(token)) return setFault('A token has no spaces and only characters of ASCII.')
    try {
      const api = createApi(token, onLost)
      onSession({ api, operator: await api.get<Me>('/me') })
    } catch (error) {
      setFault(sentenceOf(error))
    }
  }
  const told =
    fault ?? (wasLost ? 'The token is not accepted any more. Nothing is kept; type it again.' : undefined)
  return (
    <>
      <Heading title="Sign in">One key is stuck?</Heading>
      <p>Find its record, see it on every node, and decide about it without executing it twice.</p>
      <form class="panel" onSubmit={(event) => void submit(event)} autocomplete="off">
        <label for="token">Your token</label>
        <input
          id="token"
          name="token"
          type="password"
          required
          autocomplete="off"
          spellcheck={false}
          aria-describedby="token-hint"
        />
        <p id="token-hint" class="hint">
          The third word of your line in FENCEPOST_OPERATOR_TOKENS_FILE. This tab keeps it in memory until it
          is closed or reloaded, and stores it nowhere.
        </p>
        {told === undefined ? undefined : (
          <p class="failure" role="alert">
            {told}
          </p>
        )}
        <button type="submit" class="primary">
          Sign in
        </button>
      </form>
    </>
  )
}

function useRoute(): Route {
  const [route, setRoute] = useState(() => routeIn(location.hash))
  useEffect(() => {
    const follow = () => setRoute(routeIn(location.hash))
    addEventListener('hashchange', follow)
    return () => removeEventListener('hashchange', follow)
  }, [])
  return route
}
