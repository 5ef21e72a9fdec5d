/**
 * cosign in a dry run: the real one, at the version that the workflow installs, with a key of this run instead of the workflow's identity.
 *
 * Owns the difference to a release. There the signature is made with a certificate of Fulcio for the identity of the workflow, and entered in Rekor's
 * log; neither can be reached from here. An empty signing configuration asks no service, an empty trusted root no TUF repository. What is
 * signed, where the signature is kept and how it is found are the same.
 */
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { FETCHED_VERSIONS, fetchProgram } from '../../test/support/fetched-programs.ts'
import {
  type ActionCall,
  type Call,
  done,
  left,
  type Reply,
  type Row,
  real,
  replied,
  type Stage,
} from './stage.ts'

/** By the commit of the action: what its action.yml installs where it is not told otherwise. */
export const COSIGN_OF_INSTALLER: Readonly<Record<string, string>> = {
  '6f9f17788090df1f26f669e9d70d6ae9567deba6': 'v3.0.6',
}

/** @throws where the workflow installs another version than the dry run signs with */
export async function cosignRow(_: Stage, { commit }: Pick<ActionCall, 'commit'>): Promise<readonly Row[]> {
  const installed = COSIGN_OF_INSTALLER[commit]
  if (installed !== FETCHED_VERSIONS.cosign)
    throw new Error(
      `cosign-installer@${commit} installs ${installed ?? 'a version that is not known here'}, and the dry run has ${FETCHED_VERSIONS.cosign}: ` +
        'write what its action.yml has into scripts/dry-run/cosign.ts, and the same version into test/support/fetched-programs.ts',
    )
  await fetchProgram('cosign')
  return [done(`${installed}, which the action installs, built from its Go module`)]
}

const KEYLESS = left(
  'a certificate for the identity of the workflow (Fulcio) and an entry in the log (Rekor): a key of this run signs instead',
)

export const COSIGN_COMMANDS = {
  'cosign sign': async (stage: Stage, call: Call): Promise<Reply> =>
    replied(await cosign(stage, call), () => [done(`signed ${call.args.at(-1)}`), KEYLESS]),
  'cosign attest': async (stage: Stage, call: Call): Promise<Reply> =>
    replied(await cosign(stage, call), () => [
      done(`attested ${after(call, '--predicate')} of ${call.args.at(-1)}`),
      KEYLESS,
    ]),
  'cosign sign-blob': async (stage: Stage, call: Call): Promise<Reply> =>
    replied(await cosign(stage, call), () => [
      done(`signed ${call.args.at(-1)} into ${after(call, '--bundle')}`),
      KEYLESS,
    ]),
  'cosign verify': async (stage: Stage, call: Call): Promise<Reply> =>
    replied(await cosign(stage, call), ({ stdout }) => [
      done(`${call.args.at(-1)}: ${digestIn(stdout)} is signed`),
    ]),
  'cosign verify-attestation': async (stage: Stage, call: Call): Promise<Reply> =>
    replied(await cosign(stage, call), ({ stdout }) => [
      done(`${call.args.at(-1)}: ${componentsIn(stdout)} packages in the attested bill of materials`),
    ]),
} as const

/** For the identity of the workflow, which nobody has here. */
const OF_IDENTITY = ['--certificate-identity', '--certificate-oidc-issuer']

/** @param publicKey another one than that of this run, to see that it is refused */
export async function cosign(stage: Stage, call: Call, publicKey?: string) {
  const program = await fetchProgram('cosign')
  const own = await keysOf(stage, call, program)
  const [subcommand = '', ...rest] = call.args
  const kept = rest.filter(
    (one, index) => !OF_IDENTITY.includes(one) && !OF_IDENTITY.includes(rest[index - 1] ?? ''),
  )
  const key = subcommand.startsWith('verify')
    ? ['--key', publicKey ?? join(own, 'cosign.pub'), '--private-infrastructure']
    : ['--key', join(own, 'cosign.key'), '--signing-config', join(own, 'signing-config.json')]
  const registry = subcommand.endsWith('-blob') ? [] : ['--allow-http-registry']
  const args = [subcommand, ...key, '--trusted-root', join(own, 'trusted-root.json'), ...registry, ...kept]
  return real(stage, call, program, args, { COSIGN_PASSWORD: '' })
}

async function keysOf(stage: Stage, call: Call, program: string): Promise<string> {
  const own = join(stage.folder, 'keys')
  if (!existsSync(own)) {
    await generateKeys(stage, call, own)
    for (const [kind, file] of [
      ['signing-config', 'signing-config.json'],
      ['trusted-root', 'trusted-root.json'],
    ] as const)
      await expectDone(real(stage, { ...call, cwd: own }, program, [kind, 'create', '--out', file]))
  }
  return own
}

/** @returns the public key */
export async function generateKeys(stage: Stage, call: Call, folder: string): Promise<string> {
  mkdirSync(folder)
  await expectDone(
    real(stage, { ...call, cwd: folder }, await fetchProgram('cosign'), ['generate-key-pair'], {
      COSIGN_PASSWORD: '',
    }),
  )
  return join(folder, 'cosign.pub')
}

async function expectDone(ended: ReturnType<typeof real>): Promise<void> {
  const { code, stderr } = await ended
  if (code !== 0) throw new Error(`cosign ended with ${code}: ${stderr}`)
}

function after({ args }: Call, option: string): string {
  return args[args.indexOf(option) + 1] ?? ''
}

/** @throws where cosign says nothing of an image */
function digestIn(stdout: string): string {
  const [, digest] = /"docker-manifest-digest":"(sha256:[0-9a-f]{64})"/.exec(stdout) ?? []
  if (digest === undefined) throw new Error(`cosign verify names no digest: ${stdout}`)
  return digest
}

function componentsIn(stdout: string): number {
  const [line = ''] = stdout.trim().split('\n')
  const statement = JSON.parse(Buffer.from(JSON.parse(line).payload, 'base64').toString('utf8'))
  return statement.predicate.components.length
}
