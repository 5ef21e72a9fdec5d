/** The dry run of a release: that it knows every step of the workflow, and refuses what it does not know. dry-run.long.test.ts runs it. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { COSIGN_OF_INSTALLER, cosignRow } from '../../scripts/dry-run/cosign.ts'
import { openRunner, type Runner, unknownIn } from '../../scripts/dry-run/runner.ts'
import { openStage, type Stage } from '../../scripts/dry-run/stage.ts'
import {
  commandsOf,
  evaluated,
  RELEASE_WORKFLOW,
  type Step,
  stepsOf,
} from '../../scripts/dry-run/workflow.ts'
import { FETCH_MS_MAX, FETCHED_VERSIONS } from '../support/fetched-programs.ts'

const root = join(import.meta.dirname, '../..')
const textOf = (file: string) => readFileSync(join(root, file), 'utf8')
const workflow = (steps: string) =>
  stepsOf('a.yml', () => `jobs:\n  one:\n    steps:\n${steps.replace(/^/gm, '      ')}\n`)
const scriptStep = (script: string): Step => ({
  ...{ job: 'one', name: 'a step', id: undefined, env: {} },
  ...{ kind: 'script', script },
})

describe('the steps of the release workflow', () => {
  test('every step is read, those of the called workflow in the place of the call', () => {
    const steps = stepsOf()
    const written = [RELEASE_WORKFLOW, '.github/workflows/artifacts.yml'].flatMap((file) => [
      ...textOf(file).matchAll(/^ +- (?:id|name|uses|run|env)\b/gm),
    ])
    expect(steps.length).toBe(written.length)
    const jobs = [...new Set(steps.map(({ job }) => job))]
    expect(jobs).toEqual(['tag', 'artifacts', 'npm', 'image', 'charts', 'published', 'page'])
  })

  test('the dry run knows every action and every command of them', () => {
    expect(unknownIn(stepsOf())).toEqual([])
  })

  test('a step that is added is named until the dry run knows what it does', () => {
    const added = workflow(
      '- uses: actions/attest@0123\n- name: Notify\n  run: |\n    npm ci\n    notify --all\n    npm whoami',
    )
    expect(unknownIn(added)).toEqual([
      'one: actions/attest: the action actions/attest',
      'one: Notify: notify --all',
      'one: Notify: npm whoami',
    ])
  })

  test.each([
    ['a condition of a step', '- run: npm ci\n  if: always()', 'step npm ci: the dry run does not know "if"'],
    ['another shell', '- run: npm ci\n  shell: pwsh', 'the dry run does not know "shell"'],
  ])('%s is refused, because it may decide what runs', (_, steps, sentence) => {
    expect(() => workflow(steps)).toThrow(sentence)
  })

  test('a job that stands before the one that it needs is refused', () => {
    const text = 'jobs:\n  one:\n    needs: two\n    steps: []\n  two:\n    steps: []\n'
    expect(() => stepsOf('a.yml', () => text)).toThrow('write the job two before one, which needs it')
  })

  // biome-ignore format: the table reads as a table
  test.each([
    ['npm ci',                                              ['npm ci']],
    ['version="$TAG"\ntest "$(npm -v)" = 3',               ['npm -v)" = 3']],
    ['for one in a b; do\n  sign "$one"\ndone',             ['sign "$one"']],
    ['case "$v" in *-*) tag=next ;; *) publish "$v" ;; esac', ['publish "$v"']],
    ['# a comment; with this\ncd x && list | count',        ['list', 'count']],
    ['build --one \\\n  --two .',                           ['build --one --two .']],
    ['out="$(push "$one" 2>&1)"\nA=1 B="2 3" start',        ['push "$one" 2>&1)"', 'start']],
    ['if check; then sudo rm x; else echo no; fi',          ['check', 'sudo rm x']],
  ])('the commands of %j', (script, commands) => {
    expect(commandsOf(script)).toEqual(commands)
  })

  test('an expression without a value is refused', () => {
    const named = (name: string) => `\${{ ${name} }}`
    expect(evaluated(`a/${named('github.sha')}`, { 'github.sha': 'b' })).toBe('a/b')
    expect(() => evaluated(named('inputs.name'), {})).toThrow(`no value for ${named('inputs.name')}`)
  })
})

describe('cosign', () => {
  test('the dry run signs with the version that the workflow installs', () => {
    const commits = stepsOf().flatMap((step) =>
      step.kind === 'action' && step.action === 'sigstore/cosign-installer' ? [step.commit] : [],
    )
    expect(commits.length).toBe(4)
    expect([...new Set(commits.map((commit) => COSIGN_OF_INSTALLER[commit]))]).toEqual([
      FETCHED_VERSIONS.cosign,
    ])
  })

  test('another commit of the action is refused until its version is written down', async () => {
    await expect(cosignRow({} as Stage, { commit: '0123' })).rejects.toThrow(
      'installs a version that is not known here',
    )
  })
})

/** Helm may have to be fetched; and a step of the release starts a dozen processes, for which a busy machine takes a minute. */
describe('steps that run', { timeout: FETCH_MS_MAX }, () => {
  const resources = new AsyncDisposableStack()
  let stage: Stage
  let runner: Runner
  beforeAll(async () => {
    stage = resources.use(await openStage())
    runner = resources.use(await openRunner(stage))
  }, FETCH_MS_MAX)
  afterAll(() => resources.disposeAsync())

  test('the steps that compare the tag run in a tagged clone, and what needs a network is left with its reason', async () => {
    const reports = []
    for (const step of stepsOf().filter(({ job }) => job === 'tag')) reports.push(await runner.run(step))
    expect(reports.flat().map(({ outcome, said }) => `${outcome} ${said}`)).toEqual([
      expect.stringMatching(new RegExp(`^done ${stage.tag} is [0-9a-f]{7,} `)),
      `done Node ${process.versions.node}`,
      expect.stringMatching(/^left nothing is downloaded: \d{3} packages /),
      `done says ${stage.version}`,
      expect.stringMatching(
        /^done every place has the version, and the changelog is dated: \d+ lines of notes$/,
      ),
      'left asks the npm registry which vulnerabilities are known',
    ])
    // What a step says to those after it, and a variable of its own, which they do not get.
    const step = { ...scriptStep('echo "MADE=$OWN" >> "$GITHUB_ENV"'), env: { OWN: 'ghcr.io/fencepost' } }
    expect(await runner.run(step)).toEqual([{ outcome: 'done', said: `MADE=${stage.host}/fencepost` }])
    await runner.run(scriptStep('test -n "$MADE" && test -z "$OWN" && echo "SEEN=1" >> "$GITHUB_ENV"'))
  })

  test('a step that does what the dry run does not know fails, and one that says nothing, too', async () => {
    const failing = (script: string) => expect(runner.run(scriptStep(script))).rejects
    await failing('tool=curl; $tool https://example.org').toThrow('the dry run has no such program')
    await failing('npm "$(echo whoami)"').toThrow(
      'the dry run does not know "npm whoami": say in scripts/dry-run/',
    )
    await failing('test 1 = 2').toThrow('a step ended with 1')
    await failing('echo hello').toThrow('says of nothing that it was done or left')
    // The script has caught what helm said.
    await failing('said="$(helm push no-such-chart.tgz "oci://$HOST" 2>&1)"').toThrow('no-such-chart.tgz')
  })

  test('a package that is published before the one that it depends on is refused', async () => {
    const place = join(stage.folder, 'jobs/one')
    const tarball = (name: string, dependencies: Readonly<Record<string, string>>) => {
      const manifest = JSON.stringify({ name: `@fencepost/${name}`, version: '1.2.3', dependencies })
      mkdirSync(join(place, name, 'package'), { recursive: true })
      writeFileSync(join(place, name, 'package/package.json'), manifest)
      execFileSync('tar', ['-czf', join(place, `${name}.tgz`), '-C', join(place, name), 'package'])
    }
    tarball('client', { another: '4.5.6' })
    tarball('saga', { '@fencepost/client': '1.2.3' })
    const published = (name: string) => runner.run(scriptStep(`npm publish --access public ./${name}.tgz`))
    await expect(published('saga')).rejects.toThrow('publish @fencepost/client@1.2.3 before @fencepost/saga')
    expect((await published('client'))[0]?.said).toMatch(/^npm takes @fencepost\/client@1\.2\.3: \d files, /)
    expect((await published('saga'))[0]?.said).toMatch(/^npm takes @fencepost\/saga@1\.2\.3: \d files, /)
  })
})
