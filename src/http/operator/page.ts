/**
 * The operator's page on its listener: a few files that were built, the same for everybody.
 *
 * Owns which paths are open without a token, and the headers that keep the page to itself: no other page may frame it,
 * nothing is loaded from elsewhere, and no script runs that is not a file of this listener. The page knows nothing by
 * itself; what it shows it asks for with the token that its reader typed.
 */

import type { FastifyInstance } from 'fastify'

/** A file of the page as it was built. */
type PageFile = { readonly type: string; readonly body: Buffer }

/** Where each file of the page is served. A record or a view is behind the `#`, which no browser sends. */
export const PAGE_PATHS = {
  '/': 'index.html',
  '/page/app.css': 'app.css',
  '/page/app.js': 'app.js',
  '/page/icon.svg': 'icon.svg',
} as const

export type PageFileName = (typeof PAGE_PATHS)[keyof typeof PAGE_PATHS]

export type PageFiles = Readonly<Record<PageFileName, PageFile>>

/**
 * `default-src 'self'` also rules out inline scripts, inline styles and `eval`; the rest closes what it does not cover.
 * Trusted types: not even a script of ours can write text as HTML.
 */
const PAGE_HEADERS = {
  'Content-Security-Policy':
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
  'X-Frame-Options': 'DENY',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
} as const

/** From sources without a build: who opens the page is told what to do. */
const NOT_BUILT =
  'The page is a part of the built program, and this sidecar runs from its sources. Run "npm run build" and start it again; the calls of the operator API work without it.\n'

declare module 'fastify' {
  interface FastifyContextConfig {
    /** Answered without a token. */
    open?: true
  }
}

export function servePage(app: FastifyInstance, files: PageFiles | undefined): void {
  for (const [path, name] of Object.entries(PAGE_PATHS))
    app.get(path, { config: { open: true } }, async (_request, reply) => {
      reply.headers(PAGE_HEADERS)
      const file = files?.[name]
      return file === undefined
        ? reply.code(404).type('text/plain; charset=utf-8').send(NOT_BUILT)
        : reply.type(file.type).send(file.body)
    })
}
