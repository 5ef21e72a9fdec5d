/** The dry run of a release, whole: packed, built, pushed to a registry on loopback, signed by cosign, pulled and verified. */
import { describe, expect, test } from 'vitest'
import { dryRun, REFUSALS } from '../../scripts/dry-run/main.ts'
import { stepsOf } from '../../scripts/dry-run/workflow.ts'
import { currentVersion } from '../../scripts/version.ts'
import { FETCH_MS_MAX } from '../support/fetched-programs.ts'

const DIGEST = 'sha256:[0-9a-f]{64}'
/** The programs may have to be fetched, and the image is built on whatever else the machine does. */
const DRY_RUN_MS_MAX = FETCH_MS_MAX + 10 * 60_000

describe('the dry run of a release', { timeout: DRY_RUN_MS_MAX }, () => {
  test('it goes through every step of the workflow, signs, and what was changed is refused', async () => {
    const version = currentVersion()
    const said: string[] = []
    const reports = await dryRun((line) => said.push(line), { twice: false, arm64: false })
    expect(reports.map(({ job, step }) => `${job}: ${step}`)).toEqual([
      ...stepsOf().map(({ job, name }) => `${job}: ${name}`),
      `${REFUSALS.job}: ${REFUSALS.step}`,
    ])
    expect(reports.filter(({ rows }) => rows.length === 0)).toEqual([])
    const done = reports.flatMap(({ rows }) => rows.filter(({ outcome }) => outcome === 'done'))
    const figures = [
      'publint and attw find nothing; packed again, every tarball has the same bytes',
      '6 files are as the list says',
      ...['@fencepost/client', '@fencepost/saga', 'fencepost'].map(
        (name) => `npm takes ${name}@${version}, under the tag \\w+: \\d+ files, \\d+ bytes, sha512-.+`,
      ),
      `127\\.0\\.0\\.1:\\d+/fencepost/fencepost:v${version} is ${DIGEST}, .+`,
      ...['fencepost', 'charts/fencepost-lib', 'charts/fencepost'].flatMap((name) => [
        `signed 127\\.0\\.0\\.1:\\d+/fencepost/${name}@${DIGEST}`,
        `127\\.0\\.0\\.1:\\d+/fencepost/${name}:${version}: ${DIGEST} is signed`,
        `refused: fencepost/${name} by another key`,
        `refused: fencepost/${name} with a changed manifest`,
      ]),
      `attested release/sbom\\.cdx\\.json of .+@${DIGEST}`,
      `.+: \\d+ packages in the attested bill of materials`,
      'refused: the bill of materials by another key',
      'SHA256SUMS is what SHA256SUMS\\.sigstore\\.json signs',
      'refused: a byte of SHA256SUMS changed, by its signature',
      `refused: a byte of fencepost-${version}\\.tgz changed, by SHA256SUMS`,
      `pulled for linux/\\w+, it says ${version}`,
      `installed from the tarball, it says ${version}`,
    ]
    const missing = figures.filter((figure) => !done.some((row) => new RegExp(`^${figure}$`).test(row.said)))
    expect(missing, said.join('\n')).toEqual([])
  })
})
