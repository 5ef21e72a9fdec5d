/**
 * The password of the nodes is changed, and users are given to nodes that had none, as deploy.md says it, on real servers: each node after
 * the last one votes.
 *
 * Bug: deploy.md also had one rollout, with the new password everywhere at once. The first node of it never voted again: the old sidecars did
 * not get in, and the new ones saw no majority to learn from. Kubernetes waited for it for ever.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { folderOfTests } from '../support/during-tests.ts'
import { eventually } from '../support/eventually.ts'
import { postedJson } from '../support/post.ts'
import { startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

const NODES = 3
const EXAMPLE = join(import.meta.dirname, '../../deploy/k8s/nodes-tls-acl/users.acl.example')
const folder = folderOfTests('passwords')

const listOf = (index: number) => join(folder, `${index}.acl`)

const listWith = (...passwords: readonly string[]) =>
  readFileSync(EXAMPLE, 'utf8').replace(
    '>replace-this-password',
    passwords.map((password) => `>${password}`).join(' '),
  )
const EVERYBODY = 'user default on nopass ~* &* +@all'
const withEverybody = (list: string) => list.replace('user default off ~* &* +@all', EVERYBODY)

async function votes(sidecar: Sidecar): Promise<number> {
  const answer = await fetch(`${sidecar.admin}/readyz`)
  const { nodes } = (await answer.json()) as { nodes: { state: string }[] }
  return nodes.filter(({ state }) => state === 'voting').length
}

async function reserve(sidecar: Sidecar, value: string): Promise<number> {
  const { status } = await postedJson(`${sidecar.api}/v1/reservations`, {
    session_id: sidecar.api,
    reserved_value: value,
    lease: '1s',
  })
  return status
}

test.each([
  {
    what: 'another password, with both in between',
    lists: [listWith('old'), listWith('old', 'new'), listWith('new')] as const,
    logins: ['old', 'new'] as const,
  },
  {
    what: 'users, with everybody in between',
    lists: [EVERYBODY, withEverybody(listWith('new')), listWith('new')] as const,
    logins: [undefined, 'new'] as const,
  },
])('$what: every node votes again, and sidecars of both serve', async ({ lists, logins }) => {
  const [first, between, last] = lists
  for (let index = 0; index < NODES; index += 1) writeFileSync(listOf(index), `${first}\n`)
  await using servers = await startRedisServers(NODES, {
    appendOnly: true,
    config: (index) => [`aclfile ${listOf(index)}`],
  })
  const sidecarWith = (password: string | undefined) => {
    const file = join(folder, password ?? 'none')
    writeFileSync(file, password ?? '')
    return startSidecar({
      ...PATIENT,
      FENCEPOST_REDIS_NODES: servers.nodesSetting,
      ...(password === undefined
        ? {}
        : { FENCEPOST_REDIS_USERNAME: 'fencepost', FENCEPOST_REDIS_PASSWORD_FILE: file }),
    })
  }
  const everyNodeVotes = (sidecar: Sidecar) =>
    eventually('every node votes', async () => (await votes(sidecar)) === NODES)
  const roll = async (sidecar: Sidecar, list: string) => {
    for (let index = NODES - 1; index >= 0; index -= 1) {
      writeFileSync(listOf(index), `${list}\n`)
      await servers.stop(index)
      expect(await reserve(sidecar, crypto.randomUUID())).toBe(201)
      await servers.start(index)
      await everyNodeVotes(sidecar)
    }
  }
  await using before = await sidecarWith(logins[0])
  await everyNodeVotes(before)
  await roll(before, between)

  await using after = await sidecarWith(logins[1])
  await everyNodeVotes(after)
  expect([await reserve(before, 'by-both'), await reserve(after, 'by-both')]).toEqual([201, 409])
  await before.process.end()
  await roll(after, last)
})
