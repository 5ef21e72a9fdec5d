/** Every relative link of the Markdown pages leads to a file, and to a heading of it; every page, and heading of one, that is named anywhere exists. */
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { expect, test } from 'vitest'

const root = dirname(import.meta.dirname)
const written = (pattern: string) =>
  globSync(pattern, {
    cwd: root,
    exclude: (path) => /(^|\/)(node_modules|dist|target|results|\.tmp)$/.test(path),
  })
    .filter((file) => statSync(join(root, file)).isFile())
    .sort()
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')

const pages = written('**/*.md')

test('every relative link of a page leads to a file or folder, and its anchor to a heading', () => {
  const links = pages.flatMap((page) => linksOf(page).map((link) => ({ page, link })))
  expect(links.length).toBeGreaterThan(100)
  const broken = links.filter(({ page, link }) => !leadsSomewhere(page, link))
  expect(broken.map(({ page, link }) => `${page}: ${link}`)).toEqual([])
})

test('every page of docs/ that code, configuration or another page names exists, and the heading that is named with it', () => {
  const texts = [
    '*.{md,json,ts,yaml}',
    '{src,packages,test,scripts,bench,examples,spec,dashboards,deploy,docs}/**/*',
  ].flatMap(written)
  const missing = texts.flatMap((file) =>
    [
      ...textOf(file).matchAll(
        /(?<![\w/.-])(?:\.\.\/)*(docs\/[\w/-]+\.(?:md|svg|json))(?:, "([A-Z][^"]+)")?/g,
      ),
    ]
      .filter(([, page = '', heading]) => {
        if (!existsSync(join(root, page))) return true
        return heading !== undefined && !headingsOf(page).includes(anchorOf(heading.replaceAll('\\', '')))
      })
      .map(([named]) => `${file}: ${named}`),
  )
  expect(missing).toEqual([])
})

test('every file or folder of the repository that a page names in code exists', () => {
  const inCode = /`((?:src|packages|test|spec|scripts|bench|deploy|dashboards|examples)\/[\w./-]+)`/g
  const missing = pages.flatMap((page) =>
    [...textOf(page).matchAll(inCode)]
      .map(([, path = '']) => path)
      .filter((path) => !existsSync(join(root, path)))
      .map((path) => `${page}: ${path}`),
  )
  expect(missing).toEqual([])
})

test('docs/README.md leads to every page of docs/', () => {
  const named = linksOf('docs/README.md').map((link) => join('docs', link.replace(/#.*$/, '')))
  const others = written('docs/**/*.md').filter((page) => page !== 'docs/README.md')
  expect(others.filter((page) => !named.includes(page))).toEqual([])
})

/** Targets of links and pictures, without those of other hosts. */
function linksOf(page: string): string[] {
  const prose = textOf(page)
    .replace(/^```[\s\S]*?^```$/gm, '')
    .replace(/`[^`\n]*`/g, (code) => '`'.repeat(code.length))
  const inline = [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
  const html = [...prose.matchAll(/\b(?:src|srcset|href)="([^"\s]+)"/g)]
  return [...inline, ...html].map(([, target = '']) => target).filter((target) => !/^[a-z]+:/.test(target))
}

function leadsSomewhere(page: string, link: string): boolean {
  const [path = '', anchor] = link.split('#')
  const target = path === '' ? page : relative(root, join(root, dirname(page), path))
  if (target.startsWith('..') || !existsSync(join(root, target))) return false
  return anchor === undefined || headingsOf(target).includes(anchor)
}

/** The anchors that GitHub makes of headings. */
function headingsOf(page: string): string[] {
  const prose = textOf(page).replace(/^```[\s\S]*?^```$/gm, '')
  const seen = new Map<string, number>()
  return [...prose.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) => {
    const slug = anchorOf(heading)
    const times = seen.get(slug) ?? 0
    seen.set(slug, times + 1)
    return times === 0 ? slug : `${slug}-${times}`
  })
}

function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .replace(/ /g, '-')
}
