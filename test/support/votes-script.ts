/** The readiness probe of the nodes, run as the kubelet does: the script of deploy/k8s, on a server of this machine. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { requireProgram } from './programs.ts'

const SCRIPT = join(import.meta.dirname, '../../deploy/k8s/nodes/votes.sh')
const LOGIN = '/etc/valkey-login'

/** @param login the folder that stands for the mounted Secret with the password */
export async function runVotesScript(
  options: readonly string[],
  login = '/nowhere',
): Promise<{ readonly code: number; readonly said: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'fencepost-votes-'))
  try {
    const text = await readFile(SCRIPT, 'utf8')
    if (!text.includes(LOGIN)) throw new Error(`${SCRIPT} reads no password from ${LOGIN}`)
    await writeFile(join(folder, 'votes.sh'), text.replaceAll(LOGIN, login))
    // The image of the nodes is Valkey's; its client takes the options of the one of Redis.
    await symlink(requireProgram('redisCli'), join(folder, 'valkey-cli'))
    return await new Promise((resolve) => {
      const env = { PATH: `${folder}:/usr/bin:/bin` }
      execFile('sh', [join(folder, 'votes.sh'), ...options], { env }, (error, stdout, stderr) =>
        resolve({ code: error === null ? 0 : Number(error.code), said: `${stdout}${stderr}`.trim() }),
      )
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
