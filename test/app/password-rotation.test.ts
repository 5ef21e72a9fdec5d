/** The password for the nodes is changed while the sidecar runs: on real nodes, whichever of nodes and file is first. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../support/eventually.ts'
import { type RedisServers, startRedisServers } from '../support/redis-servers.ts'
import { PATIENT, type Sidecar, startSidecar } from '../support/sidecar.ts'

type Rotation = {
  readonly sidecar: Sidecar
  readonly file: string
  /** The node takes this password alone from now on, and its connections are cut. */
  set(index: number, password: string): Promise<void>
  nodes(): Promise<readonly string[]>
}

const USER = ['user', 'sidecar', 'on', '>first', '~*', '&*', '+@all'].join(' ')

async function rotation(servers: RedisServers): Promise<Rotation> {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-password-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'password')
  writeFileSync(file, 'first\n')
  const sidecar = await startSidecar({
    ...PATIENT,
    FENCEPOST_REDIS_NODES: servers.nodesSetting,
    FENCEPOST_REDIS_USERNAME: 'sidecar',
    FENCEPOST_REDIS_PASSWORD_FILE: file,
  })
  onTestFinished(() => sidecar[Symbol.asyncDispose]())
  return {
    sidecar,
    file,
    set: async (index, password) => {
      const admin = new Redis(servers.at(index).url)
      await admin.call('ACL', 'SETUSER', 'sidecar', 'resetpass', `>${password}`)
      await admin.call('CLIENT', 'KILL', 'USER', 'sidecar')
      admin.disconnect()
    },
    nodes: async () => {
      const answer = await fetch(`${sidecar.admin}/readyz`)
      const { nodes } = (await answer.json()) as { nodes: { state: string; reason?: string }[] }
      return nodes.map(({ state, reason }) => (reason === undefined ? state : `${state}: ${reason}`))
    },
  }
}

const VOTING = ['voting', 'voting', 'voting']

// Bug: the file was read at the start alone, so each sidecar stayed without nodes until somebody started it again.
test.each(['nodes', 'file'] as const)(
  'the %s first: the sidecar is back without a restart',
  async (first) => {
    await using servers = await startRedisServers(3, {
      founded: true,
      config: ['user default on nopass ~* &* +@all', USER],
    })
    const { sidecar, file, set, nodes } = await rotation(servers)
    expect(await nodes()).toEqual(VOTING)
    const changeNodes = () => Promise.all([0, 1, 2].map((index) => set(index, 'second')))
    const changeFile = async () => writeFileSync(file, 'second\n')
    const [change, changeOther] = first === 'nodes' ? [changeNodes, changeFile] : [changeFile, changeNodes]
    await change()
    if (first === 'file') {
      await sidecar.process.line(/the password for the nodes.*what it holds is in force/)
      // Nothing is dialled anew for it: what is connected stays so.
      expect(await nodes()).toEqual(VOTING)
      // The node has the old one still.
      const admin = new Redis(servers.at(0).url)
      await admin.call('CLIENT', 'KILL', 'USER', 'sidecar')
      admin.disconnect()
    }
    const refused = `down: it refuses user or password (WRONGPASS invalid username-password pair or user is disabled): user sidecar, password of FENCEPOST_REDIS_PASSWORD_FILE, ${file}`
    await eventually(
      'the refused node says whose password it refuses',
      async () => (await nodes())[0] === refused,
    )
    await sidecar.process.line(new RegExp(`"node":"${new URL(servers.at(0).url).host}".*WRONGPASS.*${file}`))
    await changeOther()
    await eventually('all vote again', async () => `${await nodes()}` === `${VOTING}`)
  },
)

test('the password of a URL goes before that of the file, and is named as such', async () => {
  await using servers = await startRedisServers(3, { config: ['requirepass right'] })
  const urls = servers.urls.map((url, index) => (index === 0 ? url.replace('//', '//:wrong@') : url))
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-password-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(join(folder, 'password'), 'right')
  await using sidecar = await startSidecar({
    FENCEPOST_REDIS_NODES: urls.join(),
    FENCEPOST_REDIS_PASSWORD_FILE: join(folder, 'password'),
  })
  await eventually('the nodes say how they are', async () => {
    const answer = await fetch(`${sidecar.admin}/readyz`)
    const { nodes } = (await answer.json()) as { nodes: { state: string; reason?: string }[] }
    const [ofUrl, ...ofFile] = nodes
    return (
      ofUrl?.reason?.endsWith(': user default, password of its URL') === true &&
      ofFile.every(({ reason }) => reason?.includes('WRONGPASS') !== true)
    )
  })
})
