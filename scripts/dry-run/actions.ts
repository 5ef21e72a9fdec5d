/**
 * What the dry run does for each action that release.yml uses. An action that is not here stops it.
 *
 * Artifacts are kept in a folder instead of at GitHub; what asks for an account is left.
 */
import { cpSync, existsSync, mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { cosignRow } from './cosign.ts'
import { pushBuilt } from './docker.ts'
import { type ActionCall, artifactIn, done, git, left, type Row, type Stage } from './stage.ts'

type Action = (stage: Stage, call: ActionCall) => Promise<readonly Row[]>

export const ACTIONS: Readonly<Record<string, Action>> = {
  'actions/checkout': async ({ source, tag, uncommitted }, { workspace }) => {
    git(workspace, 'clone', '--quiet', '--branch', tag, source, '.')
    const others = uncommitted === 0 ? '' : `, with ${uncommitted} files that are not committed`
    return [done(`${tag} is ${git(workspace, 'log', '-1', '--format=%h %s')}${others}`)]
  },
  'actions/setup-node': async (_, { inputs }) => {
    const [major] = process.versions.node.split('.')
    if (major !== inputs['node-version'])
      throw new Error(
        `the workflow sets up Node ${inputs['node-version']}, and this is ${process.version}: start the dry run with npm run`,
      )
    return [done(`Node ${process.versions.node}`)]
  },
  'actions/upload-artifact': async (stage, { workspace, inputs: { name = '', path = '' } }) => {
    const from = join(workspace, path)
    if (!existsSync(from)) throw new Error(`${path} is not there to be uploaded`)
    cpSync(from, artifactIn(stage, name), { recursive: true })
    return [done(`${readdirSync(from).length} files, to a folder of this machine`)]
  },
  'actions/download-artifact': async (stage, { workspace, inputs: { name = '', path = '' } }) => {
    const from = artifactIn(stage, name)
    if (!existsSync(from)) throw new Error(`no step before has uploaded the artifact ${name}`)
    mkdirSync(join(workspace, path), { recursive: true })
    cpSync(from, join(workspace, path), { recursive: true })
    return [done(`${readdirSync(from).length} files`)]
  },
  'docker/setup-buildx-action': async () => [left('buildah builds here, without a daemon')],
  'docker/login-action': async () => [
    left('ghcr.io is not asked; the registry on loopback in its place takes whatever comes'),
  ],
  'docker/build-push-action': pushBuilt,
  'sigstore/cosign-installer': cosignRow,
}
