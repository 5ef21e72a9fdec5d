/**
 * Traefik, built from its Go module into the cache of fetched programs: no distribution and no package index that the tests use has it.
 * It takes eight minutes of a processor, once, so tests run it where it is built (`npm run campaign -- traefik` builds it).
 *
 * `go install` of it is refused, because its module replaces others; so a module of ours requires it and replaces the same. Two things differ
 * from what Traefik publishes, and no request meets either: it has none of the providers of DNS that certificates can be asked of, nine
 * tenths of what would be compiled, and its library for basic and digest authentication is an older one.
 */
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { cached, goProgram, isCached, run } from './fetched-programs.ts'

export const TRAEFIK = 'v3.7.13'
const MODULE = 'github.com/traefik/traefik/v3'
const FOLDER = `traefik-${TRAEFIK}`

export function isTraefikBuilt(): boolean {
  return isCached(FOLDER, 'traefik')
}

/** The absolute path of the program, built where it is not in the cache yet. */
export function traefikProgram(): Promise<string> {
  return cached(FOLDER, 'traefik', build)
}

async function build(into: string): Promise<void> {
  console.log(`building Traefik ${TRAEFIK} from its module …`)
  const go = await goProgram()
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-traefik-'))
  const inFolder = (...args: string[]) => run('traefik', go, args, {}, folder)
  const download = async (module: string) =>
    JSON.parse(await inFolder('mod', 'download', '-json', module)) as { GoMod: string; Dir: string }
  try {
    const theirs = await readFile((await download(`${MODULE}@${TRAEFIK}`)).GoMod, 'utf8')
    const lego = /^\s*(github\.com\/go-acme\/lego\/v\d+) (v\S+)/m.exec(theirs)
    if (lego === null) throw new Error(`Traefik ${TRAEFIK} does not require lego any more`)
    const [, acme, acmeVersion] = lego as unknown as [string, string, string]
    await cp((await download(`${acme}@${acmeVersion}`)).Dir, join(folder, 'lego'), { recursive: true })
    // The module cache is read-only, and so is what was copied of it.
    await chmod(join(folder, 'lego/providers/dns'), 0o755)
    await rm(join(folder, 'lego/providers/dns/zz_gen_dns_providers.go'))
    await writeFile(join(folder, 'lego/providers/dns/none.go'), noProviders(acme))
    await mkdir(join(folder, 'ext'))
    await writeFile(join(folder, 'ext/go.mod'), 'module github.com/traefik/traefik/dynamic/ext\n\ngo 1.24\n')
    await writeFile(join(folder, 'ext/ext.go'), EXTENSIONS)
    await writeFile(join(folder, 'go.mod'), moduleFile(theirs, acme))
    const ldflags = `-s -w -X ${MODULE}/pkg/version.Version=${TRAEFIK}`
    await inFolder(
      'build',
      '-p',
      '2',
      '-o',
      join(into, 'traefik'),
      '-ldflags',
      ldflags,
      `${MODULE}/cmd/traefik`,
    )
  } finally {
    await run('traefik', 'chmod', ['-R', 'u+w', folder])
    await rm(folder, { recursive: true, force: true })
  }
}

/** @param theirs Traefik's go.mod: which Go it needs, and what it replaces and excludes */
function moduleFile(theirs: string, acme: string): string {
  return [
    'module fencepost.test/traefik',
    `go ${/^go (\S+)/m.exec(theirs)?.[1]}`,
    `require ${MODULE} ${TRAEFIK}`,
    `replace ${acme} => ./lego`,
    'replace github.com/traefik/traefik/dynamic/ext => ./ext',
    'replace github.com/abbot/go-http-auth => github.com/containous/go-http-auth v0.4.1-0.20200324110947-a37a7636d23e',
    ...[...theirs.matchAll(/^\s*(github\.com\/gorilla\/mux => .+)$/gm)].map(([, line]) => `replace ${line}`),
    ...[...theirs.matchAll(/^exclude [^(\n]+$/gm)].map(([line]) => line),
    '',
  ].join('\n')
}

function noProviders(acme: string): string {
  return `package dns

import (
	"errors"

	"${acme}/challenge"
)

func NewDNSChallengeProviderByName(name string) (challenge.Provider, error) {
	return nil, errors.New("this build has no provider of DNS: " + name)
}
`
}

/** What Traefik's own module replaces by a folder of its own, which is not published with it: nothing is extended. */
const EXTENSIONS = `package ext

type HTTP struct{}

type Router struct{}
`
