/** Where the reader is: the part of the address behind `#`, which no browser sends to anybody. */

export type Route =
  | { readonly view: 'overview' | 'find' | 'audit' }
  | { readonly view: 'record'; readonly record: string }

export function routeIn(hash: string): Route {
  const [view = '', ...rest] = hash.replace(/^#\/?/, '').split('/')
  const name = decoded(rest.join('/'))
  if (view === 'record' && name !== '') return { view, record: name }
  if (view === 'overview' || view === 'audit') return { view }
  return { view: 'find' }
}

export function linkTo(route: Route): string {
  return route.view === 'record' ? `#/record/${encodeURIComponent(route.record)}` : `#/${route.view}`
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}
