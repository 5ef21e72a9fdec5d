// Nodes with users as the pages install them: whoever follows a runbook on them can log in, and run what it says.
import { execFileSync, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folderOfTests } from '../support/during-tests.ts'
import { startRedisServers } from '../support/redis-servers.ts'

const root = join(import.meta.dirname, '../..')
const folder = folderOfTests('operator-user')

/** The lines of a page that make the list of users, ended by the password that the Secret gets for the operator. */
function usersOf(page: string): { readonly acl: string; readonly operator: string } {
  const lines = /^password=.*?--from-literal=operator-password="\$operator"$/ms.exec(
    readFileSync(join(root, page), 'utf8'),
  )
  const commands = (lines?.[0] ?? 'no such lines')
    .replace(
      'deploy/k8s/nodes-tls-acl/users.acl.example',
      `"${root}/deploy/k8s/nodes-tls-acl/users.acl.example"`,
    )
    .replace(/^kubectl create secret/m, ': kubectl create secret')
  const operator = execFileSync('sh', ['-eu', '-c', `${commands}\necho "$operator"`], {
    cwd: folder,
    encoding: 'utf8',
  }).trim()
  return { acl: join(folder, 'users.acl'), operator }
}

// Bug: the list was made without that user, so that no command of a runbook ran on these nodes.
test.each(['docs/operations/deploy.md', 'deploy/helm/fencepost/README.md'])(
  'the operator may run on nodes that %s installs what the runbooks say',
  async (page) => {
    const { acl, operator } = usersOf(page)
    await using servers = await startRedisServers(1, { config: [`aclfile ${acl}`] })
    const { port } = new URL(servers.at(0).url)
    const cli = (...command: string[]) =>
      spawnSync('redis-cli', ['-p', port, '--user', 'operator', ...command], {
        encoding: 'utf8',
        env: { ...process.env, REDISCLI_AUTH: operator },
      }).stdout.trim()
    expect(cli('PING')).toBe('PONG')
    expect(cli('CONFIG', 'SET', 'maxmemory', '1gb')).toBe('OK')
    expect(cli('CONFIG', 'GET', 'maxmemory-policy')).toContain('noeviction')
    for (const command of [
      ['SLOWLOG', 'GET', '10'],
      ['LATENCY', 'LATEST'],
      ['INFO', 'memory'],
    ])
      expect(cli(...command)).not.toMatch(/NOPERM|NOAUTH|WRONGPASS/)
    expect(cli('GET', 'dedup::incarnation')).toMatch(/NOPERM/)
  },
)
