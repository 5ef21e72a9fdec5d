/**
 * The other half of a signature: after the steps of a dry run, each thing that was signed is changed, and has to be refused.
 */
import { copyFileSync, cpSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { cosign, generateKeys } from './cosign.ts'
import { manifestOf, putManifest } from './docker.ts'
import { artifactIn, type Call, done, type Ended, type Row, real, type Stage } from './stage.ts'

/** @param workspace of the job that signed the checksums. @throws where something that was changed is taken */
export async function refusals(stage: Stage, workspace: string): Promise<readonly Row[]> {
  const call = (program: string, ...args: readonly string[]): Call => ({
    program,
    args,
    cwd: workspace,
    env: {},
  })
  return [
    ...(await refusedFiles(stage, call)),
    ...(await refusedChecksums(stage, call)),
    ...(await refusedImages(stage, call)),
  ]
}

type MakeCall = (program: string, ...args: readonly string[]) => Call

async function refusedFiles(stage: Stage, call: MakeCall): Promise<readonly Row[]> {
  const folder = join(stage.folder, 'changed')
  cpSync(artifactIn(stage, 'release'), folder, { recursive: true })
  const name = `fencepost-${stage.version}.tgz`
  writeFileSync(join(folder, name), withOneByteChanged(readFileSync(join(folder, name))))
  const checked = await real(stage, { ...call('sha256sum', '--check', 'SHA256SUMS'), cwd: folder })
  return [refused(`a byte of ${name} changed, by SHA256SUMS`, checked, `${name}: FAILED`)]
}

async function refusedChecksums(stage: Stage, call: MakeCall): Promise<readonly Row[]> {
  const bundle = ['--bundle', 'release/SHA256SUMS.sigstore.json']
  const taken = await cosign(stage, call('cosign', 'verify-blob', ...bundle, 'release/SHA256SUMS'))
  if (taken.code !== 0) throw new Error(`SHA256SUMS is signed, and cosign refuses it: ${taken.stderr}`)
  const changed = join(stage.folder, 'changed-SHA256SUMS')
  copyFileSync(join(artifactIn(stage, 'release'), 'SHA256SUMS'), changed)
  writeFileSync(changed, withOneByteChanged(readFileSync(changed)))
  const checked = await cosign(stage, call('cosign', 'verify-blob', ...bundle, changed))
  return [
    done('SHA256SUMS is what SHA256SUMS.sigstore.json signs'),
    refused('a byte of SHA256SUMS changed, by its signature', checked, 'invalid signature'),
  ]
}

async function refusedImages(stage: Stage, call: MakeCall): Promise<readonly Row[]> {
  const another = await generateKeys(stage, call('cosign'), join(stage.folder, 'another-key'))
  const image = `${stage.host}/fencepost/fencepost:${stage.version}`
  const attested = call('cosign', 'verify-attestation', '--type', 'cyclonedx', image)
  const rows = [
    refused(
      'the bill of materials by another key',
      await cosign(stage, attested, another),
      'failed to verify',
    ),
  ]
  for (const name of [
    'fencepost/fencepost',
    'fencepost/charts/fencepost',
    'fencepost/charts/fencepost-lib',
  ]) {
    const reference = `${stage.host}/${name}:${stage.version}`
    const wrongKey = await cosign(stage, call('cosign', 'verify', reference), another)
    rows.push(refused(`${name} by another key`, wrongKey, 'failed to verify'))
    const { text, type } = await manifestOf(reference)
    const changed = `${stage.host}/${name}:changed`
    await putManifest(
      changed,
      JSON.stringify({ ...JSON.parse(text), annotations: { changed: 'by somebody' } }),
      type,
    )
    const checked = await cosign(stage, call('cosign', 'verify', changed))
    rows.push(refused(`${name} with a changed manifest`, checked, 'no signatures found'))
  }
  return rows
}

/** @throws where it was taken, or refused for another reason */
function refused(what: string, { code, stdout, stderr }: Ended, reason: string): Row {
  const said = stdout + stderr
  if (code === 0 || !said.includes(reason))
    throw new Error(`refused should have been ${what} ("${reason}"), but it ended with ${code}: ${said}`)
  return done(`refused: ${what}`)
}

function withOneByteChanged(bytes: Buffer): Buffer {
  const changed = Buffer.from(bytes)
  changed.writeUInt8(changed.readUInt8(0) ^ 1, 0)
  return changed
}
