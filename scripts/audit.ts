/**
 * `npm run release -- audit`: known vulnerabilities of the running sidecar's packages, as the registry knows them.
 *
 * Owns the difference between "none are known" and "not checked": when the registry does not answer, the
 * last line begins with `unchecked`, and the exit code is not 0. A finding is accepted only by its row in
 * docs/internals/dependencies.md, which says why it can't be reached.
 *
 * Exit codes: 0 none (or all accepted), 1 findings, 75 unchecked (EX_TEMPFAIL of sysexits(3)).
 *
 * Source: npm, `npm audit --json` (auditReportVersion 2).
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export type AuditVerdict = {
  readonly kind: 'clean' | 'findings' | 'unchecked'
  readonly lines: readonly string[]
}

type Advisory = {
  readonly url?: string
  readonly title?: string
  readonly severity?: string
  readonly range?: string
}
type Report = {
  readonly vulnerabilities?: Readonly<Record<string, { readonly via?: readonly (Advisory | string)[] }>>
  readonly metadata?: { readonly dependencies?: { readonly prod?: number; readonly total?: number } }
  readonly message?: string
}

export const EXIT_CODES = { clean: 0, findings: 1, unchecked: 75 } as const

/**
 * @param written what `npm audit --json` wrote
 * @param accepted ids of advisories (`GHSA-…`) that have a row with a reason
 */
export function verdictOnAudit(written: string, accepted: ReadonlySet<string>): AuditVerdict {
  const report = parsed(written)
  if (report?.vulnerabilities === undefined || report.metadata?.dependencies === undefined) {
    const why = report?.message ?? 'npm wrote no report'
    return {
      kind: 'unchecked',
      lines: [`unchecked: the registry did not say which vulnerabilities are known (${why})`],
    }
  }
  // A package that only depends on a vulnerable one names it; that one holds the advisory.
  const found = Object.entries(report.vulnerabilities).flatMap(([name, { via = [] }]) =>
    via.flatMap((one) => (typeof one === 'string' ? [] : [{ name, advisory: one, id: idOf(one) }])),
  )
  const open = found.filter(({ id }) => !accepted.has(id))
  const told = open.map(
    ({ name, id, advisory: { severity = 'of unknown severity', title = '', range = '' } }) =>
      `${id} ${severity}: ${name} ${range} ${title}`.trim(),
  )
  const { prod, total } = report.metadata.dependencies
  const count = prod ?? total ?? 0
  const last = `${open.length} known vulnerabilities in ${count} packages, ${found.length - open.length} accepted`
  return { kind: open.length === 0 ? 'clean' : 'findings', lines: [...told, last] }
}

/** Rows `| GHSA-… | package | why |` of the page. */
export function acceptedIn(page: string): ReadonlySet<string> {
  return new Set(
    [...page.matchAll(/^\| `(GHSA-[^`]+)` \| `[^`]+` \| [^|\s][^|]* \|$/gm)].map(([, id]) => id!),
  )
}

function idOf({ url = '' }: Advisory): string {
  return /GHSA(-[0-9a-z]{4}){3}/.exec(url)?.[0] ?? url
}

function parsed(written: string): Report | undefined {
  try {
    const report: unknown = JSON.parse(written)
    return typeof report === 'object' && report !== null ? report : undefined
  } catch {
    return undefined
  }
}

function main(): void {
  const root = join(import.meta.dirname, '..')
  const asked = ['audit', '--omit=dev', '--omit=optional', '--audit-level=low', '--json']
  const { stdout, error } = spawnSync('npm', asked, {
    cwd: root,
    encoding: 'utf8',
    maxBuffer: 64 * 1024 * 1024,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const page = readFileSync(join(root, 'docs/internals/dependencies.md'), 'utf8')
  const { kind, lines } = verdictOnAudit(error === undefined ? stdout : '', acceptedIn(page))
  for (const line of lines) console.log(line)
  process.exitCode = EXIT_CODES[kind]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) main()
