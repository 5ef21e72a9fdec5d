/** Mode observe in the configuration: on one route, and for all. */
import { expect, test } from 'vitest'
import { stringify } from 'yaml'
import { hintsFor } from '../../src/config/hints.ts'
import { loadConfig } from '../../src/config/load.ts'
import { printedConfig } from '../../src/config/print.ts'
import { protects } from '../../src/core/routes/route.ts'

const ENV = { FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000' }

function routesOf(routes: readonly unknown[] | undefined, env: Readonly<Record<string, string>> = {}) {
  const file = { FENCEPOST_CONFIG: 'fencepost.yaml' }
  const loaded = loadConfig({ ...ENV, ...(routes === undefined ? {} : file), ...env }, () =>
    stringify({ routes }),
  )
  if (loaded.kind !== 'ok') throw new Error(JSON.stringify(loaded.errors))
  return { routes: loaded.config.routes, printed: printedConfig(loaded).routes.routes }
}

test('a route in mode observe is observed by its key, and by its content where a request has none', () => {
  const { routes } = routesOf([{ name: 'payments', match: { paths: ['/payments'] }, mode: 'observe' }])
  expect(routes).toMatchObject([
    {
      mode: 'observe',
      name: 'payments',
      as: { mode: 'header', retentionMs: 86_400_000, required: false },
      withoutKey: { mode: 'content' },
    },
  ])
})

test('every other field keeps its meaning, and what is printed is read back as the same route', () => {
  for (const more of [{}, { retention: '10m' }, { lease: '20s', required: true }]) {
    const given = { name: 'payments', match: { paths: ['/payments'] }, mode: 'observe', ...more }
    const { routes, printed } = routesOf([given])
    expect(printed).toMatchObject([{ mode: 'observe' }])
    expect(routesOf(printed).routes).toEqual(routes)
  }
})

test('FENCEPOST_MODE=observe: no route protects, each is observed as it would; routes that bypass stay', () => {
  const observing = { FENCEPOST_MODE: 'observe' }
  const { routes, printed } = routesOf(undefined, observing)
  expect(routes.map(({ mode }) => mode)).toEqual(['observe', 'observe'])
  expect(routes.some(protects)).toBe(false)
  expect(printed.map(({ mode }) => mode)).toEqual(['header', 'content'])
  const own = [
    { name: 'files', match: { paths: ['/files'] }, mode: 'bypass' },
    { name: 'all', match: {}, mode: 'both' },
  ]
  expect(routesOf(own, observing).routes).toMatchObject([{ mode: 'bypass' }, { as: { mode: 'both' } }])
})

test('a field that needs another mode is refused, as on any route', () => {
  const route = { name: 'a', match: {}, mode: 'observe', duplicateContent: 'execute' }
  expect(() => routesOf([route])).toThrow(/duplicateContent/)
})

test('a configuration that observes says at each start that it protects nothing', () => {
  const loaded = loadConfig({ ...ENV, FENCEPOST_MODE: 'observe' }, () => '')
  expect(loaded.kind === 'ok' && hintsFor(loaded.config)).toEqual([
    expect.stringContaining('routes unsafe-with-key, unsafe-by-content: mode observe protects nothing.'),
  ])
})
