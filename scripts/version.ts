/**
 * `npm run release -- version 0.2.0`: sets the version everywhere, and dates its section of CHANGELOG.md.
 *
 * Owns the places of the version: package.json has it, and every other place repeats it, because a manifest of npm, a chart or a
 * Dockerfile can't refer to another file. A test compares them. What it leaves to the one who releases is to commit and to tag.
 *
 * Without a version it prints that of package.json. With `--notes` it prints the section of CHANGELOG.md, and fails where a
 * place differs or the section is not dated: the release workflow runs that first.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')

/** Each pattern has the version as its second group, and matches everywhere where the version stands. */
export const PLACES: Readonly<Record<string, readonly RegExp[]>> = {
  'package.json': [/("version": ")([^"]+)/g, /("@fencepost\/(?:client|saga)": ")([^"]+)/g],
  'packages/client/package.json': [/("version": ")([^"]+)/g],
  'packages/saga/package.json': [/("version": ")([^"]+)/g, /("@fencepost\/client": ")([^"]+)/g],
  Dockerfile: [/(ARG VERSION=)(\S+)/g],
  'deploy/helm/fencepost/Chart.yaml': [
    /(^version: )(\S+)/gm,
    /(appVersion: ")([^"]+)/g,
    /(^ +version: )(\S+)/gm,
  ],
  'deploy/helm/fencepost-lib/Chart.yaml': [/(^version: )(\S+)/gm, /(appVersion: ")([^"]+)/g],
  'deploy/helm/example/Chart.yaml': [/(^version: )(\S+)/gm, /(fencepost-lib, version: )([^,]+)/g],
  'deploy/helm/example/values.yaml': [/(fencepost\/fencepost, tag: ")([^"]+)/g],
  'deploy/k8s/sidecar/sidecar.yaml': [/(fencepost\/fencepost:)(\d\S+)/g],
  'docs/operations/deploy.md': [
    /(fencepost:)(\d+\.\d+\.\d+[\w.-]*)/g,
    /(newTag: )([\w.-]+)/g,
    /(refs\/tags\/v)(\d+\.\d+\.\d+[\w.-]*)/g,
    /(fencepost-lib, version: )([^,]+)/g,
    /(--version )(\d+\.\d+\.\d+[\w.-]*)/g,
  ],
  'docs/operations/nodes.md': [/(fencepost\/fencepost:)(\d+\.\d+\.\d+[\w.-]*)/g],
}

const VERSION = /^\d+\.\d+\.\d+(-[0-9A-Za-z.]+)?$/

/** Of each place: its file, and the version there. A pattern that finds nothing has been left behind by a change of the file. */
export function versionsFound(): readonly { readonly file: string; readonly version: string }[] {
  return Object.entries(PLACES).flatMap(([file, patterns]) => {
    const text = readFileSync(join(root, file), 'utf8')
    return patterns.flatMap((pattern) => {
      const found = [...text.matchAll(pattern)].map(([, , version = '']) => ({ file, version }))
      if (found.length === 0) throw new Error(`${file} has no place for the version any more: ${pattern}`)
      return found
    })
  })
}

export function currentVersion(): string {
  return (JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }).version
}

/** The section of a version, without its heading. */
export function sectionOf(
  changelog: string,
  version: string,
): { readonly dated: boolean; readonly text: string } | undefined {
  const section = changelog.split(/^## /m).find((text) => text.startsWith(`${version} (`))
  if (section === undefined) return undefined
  const [heading = '', ...lines] = section.split('\n')
  return { dated: /\(\d{4}-\d{2}-\d{2}\)$/.test(heading.trim()), text: lines.join('\n').trim() }
}

/** `## 0.2.0 (unreleased)` → `## 0.2.0 (2027-01-31)`; the section has to be there and to say something. */
export function dated(changelog: string, version: string, day: string): string {
  const section = sectionOf(changelog, version)
  if (section === undefined || section.text === '')
    throw new Error(
      `CHANGELOG.md says nothing about ${version}: write "## ${version} (unreleased)", and what users notice`,
    )
  return changelog.replace(`## ${version} (unreleased)`, `## ${version} (${day})`)
}

function setVersion(version: string): void {
  if (!VERSION.test(version)) throw new Error(`${version} is no version; one is 0.2.0, or 0.2.0-rc.1`)
  const changelog = join(root, 'CHANGELOG.md')
  // First, because it may refuse.
  const text = dated(readFileSync(changelog, 'utf8'), version, new Date().toISOString().slice(0, 10))
  for (const [file, patterns] of Object.entries(PLACES)) {
    const before = readFileSync(join(root, file), 'utf8')
    const after = patterns.reduce((all, pattern) => all.replace(pattern, `$1${version}`), before)
    writeFileSync(join(root, file), after)
  }
  writeFileSync(changelog, text)
  execFileSync('npm', ['install', '--package-lock-only', '--silent'], { cwd: root, stdio: 'inherit' })
  execFileSync(process.execPath, ['scripts/chart-readme.ts'], { cwd: root, stdio: 'inherit' })
  console.log(
    `Every place says ${version}. Then: git commit -am "release: ${version}" && git tag v${version}`,
  )
}

function printNotes(): void {
  const version = currentVersion()
  const others = versionsFound().filter((place) => place.version !== version)
  if (others.length > 0)
    throw new Error(
      `package.json says ${version}, but ${others.map((place) => `${place.file} ${place.version}`).join(', ')}`,
    )
  const section = sectionOf(readFileSync(join(root, 'CHANGELOG.md'), 'utf8'), version)
  if (section?.dated !== true)
    throw new Error(`CHANGELOG.md has no dated section of ${version}: npm run release -- version ${version}`)
  console.log(section.text)
}

if (import.meta.main) {
  const [given] = process.argv.slice(2)
  try {
    if (given === '--notes') printNotes()
    else if (given === undefined) console.log(currentVersion())
    else setVersion(given)
  } catch (error) {
    console.error((error as Error).message)
    process.exitCode = 1
  }
}
