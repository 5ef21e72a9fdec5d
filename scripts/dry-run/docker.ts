/**
 * The image in a dry run: buildah builds it in the place of Docker's buildx, on base images of this machine (scripts/image.ts), and the registry
 * is the one on loopback.
 *
 * Left is what only buildx attaches, the provenance and its bill of materials; and without `--arm64` the image for arm64.
 */
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { ARCHITECTURES, type Architecture, OWN_ARCHITECTURE } from '../../test/support/base-images.ts'
import { openBuildah } from '../../test/support/buildah.ts'
import { mountImage } from '../../test/support/container-image.ts'
import { buildImages, pushImage, sizesOf } from '../image.ts'
import { describeLayout, differencesOf } from '../image-layout.ts'
import { releasePrograms } from '../release-programs.ts'
import { provideServerPrograms, whatToInstall } from '../server-programs.ts'
import {
  type ActionCall,
  type Call,
  done,
  left,
  notCalled,
  type Reply,
  type Row,
  type Stage,
} from './stage.ts'

/**
 * Installs what the base image for arm64 is put together from, where it may.
 *
 * @throws with a sentence for each that is still missing
 */
export function provideArm64Libraries(): void {
  const wanted = [releasePrograms.arm64Libraries, releasePrograms.arm64Atomic]
  const sentences = whatToInstall(provideServerPrograms(undefined, wanted))
  if (sentences.length > 0) throw new Error(sentences.join('\n'))
}

export const DOCKER_COMMANDS = {
  'docker buildx create': async () => notCalled("buildah builds here, without Docker's daemon"),
  'docker buildx build': build,
  'docker buildx imagetools create': tagAgain,
  'docker buildx imagetools inspect': inspect,
  'docker run --rm': runPulled,
} as const

/** As the workflow does: into an archive of an OCI layout. Each build has a storage of its own. */
async function build(stage: Stage, call: Call): Promise<Reply> {
  const option = (name: string) => call.args[call.args.indexOf(name) + 1] ?? ''
  const [, archive] = /^type=oci,dest=([\w.-]+),rewrite-timestamp=true$/.exec(option('--output')) ?? []
  if (archive === undefined)
    throw new Error(
      `the dry run builds into an archive type=oci,dest=…,rewrite-timestamp=true, not "${option('--output')}"`,
    )
  const { commit, host } = stage
  for (const given of [`REVISION=${commit.revision}`, `SOURCE_DATE_EPOCH=${commit.epochSeconds}`])
    if (!call.args.includes(given)) throw new Error(`the image would be built without --build-arg ${given}`)
  const [earlier] = stage.builds.keys()
  if (earlier !== undefined && !stage.twice) {
    // The steps after this one unpack it.
    copyFileSync(join(call.cwd, earlier), join(call.cwd, archive))
    return notCalled(`${archive} is a copy of ${earlier}: with --twice it is built`)
  }
  const folder = join(stage.folder, `build-of-${archive}`)
  const storage = join(folder, 'storage')
  mkdirSync(storage, { recursive: true })
  const buildah = stage.keep(await openBuildah(storage))
  const wanted = option('--platform')
    .split(',')
    .map((platform) => platform.replace('linux/', '') as Architecture)
  const unknown = wanted.filter((one) => !ARCHITECTURES.includes(one))
  if (unknown.length > 0)
    throw new Error(`the dry run has no base image for linux/${unknown.join(', linux/')}`)
  const architectures = wanted.filter((one) => one === OWN_ARCHITECTURE || (one === 'arm64' && stage.arm64))
  const name = await buildImages({
    buildah,
    folder,
    localBasesAt: host,
    commit,
    context: call.cwd,
    architectures,
  })
  const layout = join(folder, 'layout')
  await pushImage(buildah, name, `oci:${layout}:${stage.version}`)
  execFileSync('tar', ['-cf', join(call.cwd, archive), '-C', layout, '.'])
  const built = describeLayout(layout)
  stage.builds.set(archive, { buildah, name, digest: built.digest })
  const others = wanted.filter((one) => !architectures.includes(one))
  const rows = [
    ...sizesOf(built).map((line) => done(`${archive}: ${line}`)),
    ...others.map((one) =>
      left(
        one === 'arm64'
          ? 'linux/arm64: with --arm64 it is built'
          : `linux/${one}: a base image of it can't be put together on ${OWN_ARCHITECTURE}`,
      ),
    ),
    left(
      'the published base images, in whose place are stand-ins of this machine; the provenance and the bill of materials that buildx attaches',
    ),
  ]
  return { code: 0, stdout: '', stderr: '', rows }
}

/** What `node scripts/image-layout.ts` does, but for what buildx alone attaches. */
export async function compareBuilds({ twice }: Stage, { cwd }: Call): Promise<Reply> {
  if (!twice) return notCalled('there is one build, and what buildx attaches to it is not there')
  const [first, second] = ['first', 'second'].map((folder) => describeLayout(join(cwd, folder)))
  const differences = differencesOf(first!, second!)
  if (differences.length > 0) throw new Error(`two builds of one commit differ: ${differences.join('; ')}`)
  const rows = [done('both builds are the same image'), left('what is attached to them, by buildx')]
  return { code: 0, stdout: '', stderr: '', rows }
}

/** Pushes what was built before: the same commit is the same image. */
export async function pushBuilt(stage: Stage, { id, inputs }: ActionCall): Promise<readonly Row[]> {
  const built = stage.builds.get('first.tar')
  const { tags: reference = '', outputs } = inputs
  if (built === undefined) throw new Error('no step before has built first.tar')
  if (outputs !== 'type=image,push=true,rewrite-timestamp=true')
    throw new Error(`the dry run does not know the output "${outputs}"`)
  await pushImage(built.buildah, built.name, `docker://${reference}`)
  const { digest } = await manifestOf(reference)
  if (digest !== built.digest) throw new Error(`${built.digest} was built, and ${digest} is in the registry`)
  stage.outputs.set(`steps.${id}.outputs.digest`, digest)
  return [
    done(`${reference} is ${digest}, the build of the step before`),
    left('a third build, by buildx, with the provenance'),
  ]
}

async function tagAgain(_: Stage, { args }: Call): Promise<Reply> {
  const [tagged = '', from = ''] = args.slice(args.indexOf('--tag') + 1)
  const { text, type, digest } = await manifestOf(from)
  await putManifest(tagged, text, type)
  return { code: 0, stdout: '', stderr: '', rows: [done(`${tagged} is ${digest}`)] }
}

/** The step looks for the commit in the provenance; here it is in the label of the image that is pulled. */
async function inspect(_: Stage, { args }: Call): Promise<Reply> {
  const reference = args.at(-1) ?? ''
  const { manifests } = JSON.parse((await manifestOf(reference)).text) as {
    readonly manifests: readonly Described[]
  }
  const { config } = JSON.parse((await manifestOf(sibling(reference, manifests[0]!.digest))).text) as {
    readonly config: Described
  }
  const response = await fetch(urlOf(sibling(reference, config.digest), 'blobs'))
  const labels = (
    (await response.json()) as { readonly config: { readonly Labels: Readonly<Record<string, string>> } }
  ).config.Labels
  const revision = labels['org.opencontainers.image.revision']
  const rows = [
    done(`the image that is pulled states the commit ${revision} in its labels`),
    left('its provenance, which buildx attaches'),
  ]
  return { code: 0, stdout: `${JSON.stringify(labels)}\n`, stderr: '', rows }
}
type Described = { readonly digest: string }

async function runPulled(stage: Stage, { args }: Call): Promise<Reply> {
  const [, , reference = '', ...rest] = args
  const storage = join(stage.folder, 'pulled')
  mkdirSync(storage, { recursive: true })
  const buildah = stage.keep(await openBuildah(storage))
  const image = await mountImage(buildah, `docker://${reference}`, [
    '--quiet',
    '--pull-always',
    '--tls-verify=false',
  ])
  await using child = image.start({}, rest)
  const { code } = await child.exited
  const rows = [done(`pulled for linux/${OWN_ARCHITECTURE}, it says ${child.output.trim()}`)]
  return { code: code ?? 1, stdout: child.output, stderr: '', rows }
}

export type Manifest = { readonly text: string; readonly type: string; readonly digest: string }

/** @param reference `HOST/NAME:TAG` or `HOST/NAME@DIGEST` */
export async function manifestOf(reference: string): Promise<Manifest> {
  const types = ['application/vnd.oci.image.index.v1+json', 'application/vnd.oci.image.manifest.v1+json']
  const response = await fetch(urlOf(reference, 'manifests'), { headers: { Accept: types.join(', ') } })
  if (!response.ok)
    throw new Error(`the registry has no ${reference}: ${response.status} ${await response.text()}`)
  const digest = response.headers.get('docker-content-digest') ?? ''
  return { text: await response.text(), type: response.headers.get('content-type') ?? '', digest }
}

export async function putManifest(reference: string, text: string, type: string): Promise<void> {
  const response = await fetch(urlOf(reference, 'manifests'), {
    method: 'PUT',
    body: text,
    headers: { 'Content-Type': type },
  })
  if (!response.ok)
    throw new Error(`the registry refuses ${reference}: ${response.status} ${await response.text()}`)
}

function urlOf(reference: string, kind: 'manifests' | 'blobs'): string {
  const [, host, name, at] = /^([^/]+)\/([^@]+?)(?:@|:(?=[\w.-]+$))(.+)$/.exec(reference) ?? []
  if (at === undefined) throw new Error(`"${reference}" is no HOST/NAME:TAG and no HOST/NAME@DIGEST`)
  return `http://${host}/v2/${name}/${kind}/${at}`
}

function sibling(reference: string, digest: string): string {
  return `${reference.replace(/[@:][^/]*$/, '')}@${digest}`
}
