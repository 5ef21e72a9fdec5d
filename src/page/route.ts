/** Where the reader is: the part of the address behind `#`, which no browser sends to anybody. */

export type Route =
  | { readonly view: 'overview' | 'find' | 'audit' | 'sagas' }
  | { readonly view: 'record'; readonly record: string }
  | { readonly view: 'saga'; readonly id: string }

export function routeIn(hash: string): Route {
  const [view = '', ...rest] = hash.replace(/^#\/?/, '').split('/')
  const name = decoded(rest.join('/'))
  if (view === 'record' && name !== '') return { view, record: name }
  if (view === 'saga' && name !== '') return { view, id: name }
  if (view === 'overview' || view === 'audit' || view === 'sagas') return { view }
  return { view: 'find' }
}

export function linkTo(route: Route): string {
  switch (route.view) {
    case 'record':
      return `#/record/${encodeURIComponent(route.record)}`
    case 'saga':
      return `#/saga/${encodeURIComponent(route.id)}`
    default:
      return `#/${route.view}`
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}
