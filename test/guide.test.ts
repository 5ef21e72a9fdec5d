/** Every example of a configuration in docs/guide is one that fencepost accepts. */
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { describeErrors } from '../src/config/errors.ts'
import { loadConfig } from '../src/config/load.ts'

const root = dirname(import.meta.dirname)
const examples = globSync('docs/guide/*.md', { cwd: root }).flatMap((page) =>
  [...readFileSync(join(root, page), 'utf8').matchAll(/^```yaml\n([\s\S]*?)^```$/gm)].map(
    ([, yaml = '']) => [page, yaml] as const,
  ),
)

test('there are examples', () => {
  expect(examples.length).toBeGreaterThan(4)
})

test.each(examples)('%s: the configuration is accepted: %s', (_page, yaml) => {
  const env = {
    FENCEPOST_CONFIG: '/fencepost.yaml',
    FENCEPOST_REDIS_NODES: 'embedded',
    FENCEPOST_UPSTREAM: 'http://127.0.0.1:3000',
  }
  const loaded = loadConfig(env, () => yaml)
  expect(loaded.kind === 'ok' ? 'accepted' : describeErrors(loaded.errors)).toBe('accepted')
})
