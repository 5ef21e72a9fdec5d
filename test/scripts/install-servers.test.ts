/** The installer is run for real, with an `apt-get` that notes what the policy says while it is called. */
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { TestProcess } from '../support/processes.ts'

const before = '#!/bin/sh\nexit 0\n'

async function sandbox(aptGet: string, policy: string | undefined) {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-install-'))
  const policyFile = join(folder, 'policy-rc.d')
  if (policy !== undefined) await writeFile(policyFile, policy, { mode: 0o755 })
  await writeFile(join(folder, 'apt-get'), `#!/bin/sh\n${aptGet}\n`)
  await chmod(join(folder, 'apt-get'), 0o755)
  const installer = new TestProcess('sh', ['scripts/install-servers.sh', 'broker'], {
    env: { PATH: `${folder}:${process.env.PATH}`, POLICY_RC_D: policyFile },
  })
  return {
    installer,
    /** For an `apt-get` that waits for it. */
    letGo: () => writeFile(join(folder, 'apt-get.go'), ''),
    policyNow: async () => (existsSync(policyFile) ? readFile(policyFile, 'utf8') : undefined),
    async [Symbol.asyncDispose]() {
      await installer.end()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

const askPolicy = 'echo "$@"; sh "$POLICY_RC_D" broker start; echo "policy says $?"'

test.each([
  ['no policy before', undefined],
  ['a policy before', before],
])('no service may start while the package is installed: %s', async (_case, policy) => {
  await using box = await sandbox(askPolicy, policy)
  expect(await box.installer.exited).toEqual({ code: 0, signal: null })
  expect(box.installer.output).toMatch(/install -y --no-install-recommends broker\npolicy says 101\n$/)
  expect(await box.policyNow()).toBe(policy)
})

test('a failed installation is reported, and the policy is restored', async () => {
  await using box = await sandbox('echo "E: Unable to locate package broker"; exit 100', before)
  expect(await box.installer.exited).toEqual({ code: 100, signal: null })
  expect(await box.policyNow()).toBe(before)
})

test('an aborted installation restores the policy', async () => {
  await using box = await sandbox('echo asleep; until [ -e "$0.go" ]; do sleep 0.05; done', before)
  await box.installer.line(/asleep/)
  expect(await box.policyNow()).not.toBe(before)
  // The shell heeds the signal when the command that it waits for has ended.
  const ended = box.installer.end()
  await box.letGo()
  expect(await ended).toEqual({ code: 143, signal: null })
  expect(await box.policyNow()).toBe(before)
})
