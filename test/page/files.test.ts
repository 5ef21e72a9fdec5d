/** The page as it is built and served: its size and its headers. */
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { PAGE_PATHS, type PageFiles } from '../../src/http/operator/page.ts'
import { MAIN_PROGRAM } from '../support/main-program.ts'
import { startOperatorApi } from '../support/operator-api.ts'

const folder = join(dirname(MAIN_PROGRAM), 'page')
const read = (name: string) => readFileSync(join(folder, name))
const files = Object.fromEntries(
  Object.values(PAGE_PATHS).map((name) => [name, { type: `text/${name}`, body: read(name) }]),
) as PageFiles

/** Far below what a slow line to a cluster takes in a second. */
const GZIPPED_BYTES_MAX = 100_000

test(`the page is smaller than ${GZIPPED_BYTES_MAX} bytes as it is sent, compressed`, () => {
  const sizes = Object.values(files).map(({ body }) => gzipSync(body).length)
  expect(sizes.reduce((sum, one) => sum + one, 0)).toBeLessThan(GZIPPED_BYTES_MAX)
})

test('the document has no inline script or style, and loads only what the listener serves', () => {
  const html = read('index.html').toString()
  const loaded = [...html.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, path]) => path)
  expect(loaded.filter((path) => !(path! in PAGE_PATHS))).toEqual([])
  expect(html).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]* src=)/)
})

test.each(Object.keys(PAGE_PATHS))(
  '%s is served without a token, and keeps itself to itself',
  async (path) => {
    await using api = await startOperatorApi({ page: files })
    const { status, headers } = await fetch(api.origin + path)
    const policy = headers.get('content-security-policy') ?? ''
    expect([status, headers.get('x-frame-options'), headers.get('referrer-policy')]).toEqual([
      200,
      'DENY',
      'no-referrer',
    ])
    expect(policy).toContain("default-src 'self'")
    expect(policy).toContain("frame-ancestors 'none'")
    expect(policy).not.toContain('unsafe')
    expect([headers.get('set-cookie'), headers.get('access-control-allow-origin')]).toEqual([null, null])
    expect((await fetch(api.origin + path, { method: 'POST' })).status).toBe(401)
  },
)

test('from sources that were never built the page says what to do', async () => {
  await using api = await startOperatorApi()
  const response = await fetch(api.origin)
  expect([response.status, await response.text()]).toEqual([404, expect.stringContaining('npm run build')])
})
