/**
 * The images of the cluster, as files that containerd imports, since there is no registry: fencepost, on a base of this machine's
 * Node; the server of the nodes, which is Redis of this machine under Valkey's name; an application; and the pause of every pod.
 *
 * The image of fencepost is assembled from the bundle that `npm run build` makes, with the user, the environment and the entry point
 * that the Dockerfile states. That the Dockerfile itself builds such an image is tested in `test/deploy/dockerfile.long.test.ts`.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { bundleSidecar } from '../../scripts/bundle.ts'
import { librariesOf, nodeFiles, place } from '../support/base-images.ts'
import { requireProgram } from '../support/programs.ts'

const run = promisify(execFile)
const root = join(import.meta.dirname, '../..')

export const PAUSE = 'localhost/pause:1'
export const NODES = 'docker.io/valkey/valkey:8.1.4'
export const APPLICATION = 'example.org/application'
/** Another version of the same image. */
export const NEXT_TAG = '0.1.0-next'
export const FENCEPOST = 'ghcr.io/fencepost/fencepost'

/** @returns files with one image each */
export function buildImages(into: string): Promise<string[]> {
  return Promise.all([
    pauseImage(into),
    nodesImage(into),
    applicationImage(into),
    exampleImage(into),
    fencepostImage(into),
  ])
}

async function fencepostImage(into: string): Promise<string> {
  const dockerfile = await readFile(join(root, 'Dockerfile'), 'utf8')
  const last = dockerfile.slice(dockerfile.lastIndexOf('\nFROM '))
  const stated = (instruction: string): string => {
    const found = new RegExp(`^${instruction} ((?:.*\\\\\\n)*.*)$`, 'm').exec(last)?.[1]
    if (found === undefined) throw new Error(`the Dockerfile has no ${instruction} in its last stage`)
    return found
  }
  const config = {
    Entrypoint: JSON.parse(stated('ENTRYPOINT')),
    Cmd: JSON.parse(stated('CMD')),
    Env: stated('ENV').split(/[\s\\]+/),
    User: stated('USER'),
    WorkingDir: stated('WORKDIR'),
  }
  const names = [`${FENCEPOST}:0.1.0`, `${FENCEPOST}:${NEXT_TAG}`]
  return imageOf(into, 'fencepost', names, config, async (at) => {
    await nodeFiles(at)
    await bundleSidecar(join(at, 'app/dist'))
    await copyFile(join(root, 'package.json'), join(at, 'app/package.json'))
  })
}

async function pauseImage(into: string): Promise<string> {
  return imageOf(
    into,
    'pause',
    [PAUSE],
    { Entrypoint: ['/bin/busybox', 'sleep', 'infinity'] },
    async (at) => {
      await place(requireProgram('busybox'), at, '/bin/busybox')
    },
  )
}

async function nodesImage(into: string): Promise<string> {
  const config = { Env: ['PATH=/usr/bin:/bin'], User: '999:999', WorkingDir: '/data' }
  return imageOf(into, 'nodes', [NODES], config, async (at) => {
    for (const [program, as] of [
      [requireProgram('redis'), 'valkey-server'],
      [requireProgram('redisCli'), 'valkey-cli'],
    ] as const) {
      await place(program, at, `/usr/bin/${as}`)
      for (const library of await librariesOf(program)) await place(library, at, library)
    }
    await place(requireProgram('busybox'), at, '/bin/busybox')
    for (const applet of ['sh', 'cat', 'kill']) await symlink('busybox', join(at, 'bin', applet))
    await mkdir(join(at, 'data'))
  })
}

async function applicationImage(into: string): Promise<string> {
  const config = { Entrypoint: ['/nodejs/bin/node', '/app/application.mjs'], User: '65532:65532' }
  const names = [`${APPLICATION}:1.0.0`, `${APPLICATION}:1.1.0`]
  return imageOf(into, 'application', names, config, async (at) => {
    await nodeFiles(at)
    await mkdir(join(at, 'app'))
    await copyFile(join(import.meta.dirname, 'application.mjs'), join(at, 'app/application.mjs'))
  })
}

/** What the application of deploy/k8s/example is a script for. */
async function exampleImage(into: string): Promise<string> {
  const deployment = await readFile(join(root, 'deploy/k8s/example/deployment.yaml'), 'utf8')
  const name = /image: (\S+\/node:\S+)/.exec(deployment)?.[1]
  if (name === undefined) throw new Error('deploy/k8s/example/deployment.yaml names no image of Node')
  return imageOf(into, 'node', [name], { Env: ['PATH=/nodejs/bin'] }, async (at) => {
    await nodeFiles(at)
  })
}

/** As `docker save` writes it: one layer, its configuration, and the names. */
async function imageOf(
  into: string,
  name: string,
  tags: readonly string[],
  config: object,
  fill: (at: string) => Promise<void>,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `fencepost-image-${name}-`))
  try {
    const files = join(folder, 'files')
    await mkdir(files)
    await fill(files)
    await run('tar', ['--owner=0', '--group=0', '-C', files, '-cf', join(folder, 'layer.tar'), '.'])
    const digest = createHash('sha256')
      .update(await readFile(join(folder, 'layer.tar')))
      .digest('hex')
    const image = {
      architecture: process.arch === 'arm64' ? 'arm64' : 'amd64',
      os: 'linux',
      config,
      rootfs: { type: 'layers', diff_ids: [`sha256:${digest}`] },
    }
    await writeFile(join(folder, 'config.json'), JSON.stringify(image))
    const manifest = [{ Config: 'config.json', RepoTags: tags, Layers: ['layer.tar'] }]
    await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
    const saved = join(into, `${basename(name)}.tar`)
    await run('tar', ['-C', folder, '-cf', saved, 'manifest.json', 'config.json', 'layer.tar'])
    return saved
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
