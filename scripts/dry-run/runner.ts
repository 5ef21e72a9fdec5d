/**
 * Runs the steps of a workflow on a stage, as GitHub does: a folder for each job, a script by `bash -e`, its variables from the workflow, from the
 * steps before and from GitHub.
 *
 * Owns that a step can do nothing that the tables do not name (actions.ts, programs.ts): on the PATH of a script is a stand-in for every
 * program that they have, and no other program.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { json, text } from 'node:stream/consumers'
import { findProgram } from '../../test/support/programs.ts'
import { ACTIONS } from './actions.ts'
import { commandFor, PLAIN_PROGRAMS, standIns } from './programs.ts'
import { type Call, done, type Reply, type Row, type Stage } from './stage.ts'
import { commandsOf, evaluated, type Step } from './workflow.ts'

type Variables = Readonly<Record<string, string>>
export type Runner = AsyncDisposable & {
  /** @throws where the step fails, or says nothing of what it did */
  readonly run: (step: Step) => Promise<readonly Row[]>
}

/** What the tables have no entry for. Seen before the first step, because some take minutes. */
export function unknownIn(steps: readonly Step[]): readonly string[] {
  return steps.flatMap((step) => {
    const where = `${step.job}: ${step.name}`
    if (step.kind === 'action') return step.action in ACTIONS ? [] : [`${where}: the action ${step.action}`]
    const isPlain = (command: string) =>
      (PLAIN_PROGRAMS as readonly string[]).includes(command.split(' ')[0] as string)
    const unknown = commandsOf(step.script).filter(
      (command) => !isPlain(command) && commandFor(command.replaceAll(/["']/g, '')) === undefined,
    )
    return unknown.map((command) => `${where}: ${command}`)
  })
}

const WHERE_TO_ADD = 'say in scripts/dry-run/programs.ts what it does, or why it is left'

export async function openRunner(stage: Stage): Promise<Runner> {
  let rows: Row[] = []
  let faults: string[] = []
  const socket = join(stage.folder, 'socket')
  const server = createServer(async (request, response) => {
    const reply = await answer(stage, (await json(request)) as Call)
    if (reply.code !== 0) faults.push(reply.stderr || reply.stdout)
    rows.push(...reply.rows)
    response.end(JSON.stringify(reply))
  })
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(socket, resolve))
  const path = programsIn(join(stage.folder, 'programs'), socket)
  /** What the steps of a job have written for those after them. */
  const exported = new Map<string, Variables>()
  const run = async (step: Step): Promise<readonly Row[]> => {
    rows = []
    faults = []
    const workspace = join(stage.folder, 'jobs', step.job)
    mkdirSync(workspace, { recursive: true })
    const before = exported.get(step.job) ?? {}
    const env = { ...before, ...filled(stage, step.env, before) }
    if (step.kind === 'action') {
      const action = ACTIONS[step.action]
      if (action === undefined) throw new Error(`the dry run does not know the action ${step.action}`)
      const inputs = filled(stage, step.inputs, env)
      return action(stage, { workspace, id: step.id, commit: step.commit, inputs })
    }
    const file = join(stage.folder, `exported-by-${step.job}`)
    writeFileSync(file, '')
    const script = evaluated(step.script, valuesOf(stage, env))
    const variables = { ...process.env, ...env, ...ofGitHub(stage), GITHUB_ENV: file, PATH: path }
    await runScript(script, workspace, variables, () => faults)
    const lines = readFileSync(file, 'utf8').split('\n').filter(Boolean)
    rows.push(...lines.map(done))
    exported.set(step.job, { ...before, ...Object.fromEntries(lines.map((line) => line.split('=', 2))) })
    if (rows.length === 0) throw new Error(`the step "${step.name}" says of nothing that it was done or left`)
    return [...new Map(rows.map((row) => [row.said, row])).values()]
  }
  return { run, [Symbol.asyncDispose]: () => new Promise((resolve) => server.close(() => resolve())) }
}

async function answer(stage: Stage, call: Call): Promise<Reply> {
  const said = [call.program, ...call.args].join(' ')
  const refused = (sentence: string) => ({ code: 1, stdout: '', stderr: `${sentence}\n`, rows: [] })
  try {
    const command = commandFor(said)
    return command === undefined
      ? refused(`the dry run does not know "${said}": ${WHERE_TO_ADD}`)
      : await command(stage, call)
  } catch (error) {
    return refused((error as Error).message)
  }
}

/** @returns a PATH with every program that a step may start */
function programsIn(folder: string, socket: string): string {
  mkdirSync(folder)
  for (const name of PLAIN_PROGRAMS) symlinkSync(programOf(name), join(folder, name))
  const client = join(import.meta.dirname, 'stand-in.mjs')
  for (const name of standIns())
    writeFileSync(
      join(folder, name),
      `#!/bin/sh\nexec '${process.execPath}' '${client}' '${socket}' ${name} "$@"\n`,
      { mode: 0o755 },
    )
  return folder
}

function programOf(name: string): string {
  const program = findProgram({ programs: [name] })
  if (program === undefined)
    throw new Error(`${name} is not on the PATH: install it, the steps of the release use it`)
  return program
}

/** What is published goes to the registry on loopback. */
function filled(stage: Stage, texts: Variables, env: Variables): Variables {
  const values = valuesOf(stage, env)
  return Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [
      name,
      evaluated(text, values).replace(/^ghcr\.io\//, `${stage.host}/`),
    ]),
  )
}

/** What an expression of the workflow may name. */
function valuesOf({ tag, commit, outputs }: Stage, env: Variables): Variables {
  return {
    'github.repository': 'fencepost/fencepost',
    'github.repository_owner': 'fencepost',
    'github.ref': `refs/tags/${tag}`,
    'github.ref_name': tag,
    'github.sha': commit.revision,
    'github.actor': 'dry-run',
    'secrets.GITHUB_TOKEN': 'no-token',
    ...Object.fromEntries(Object.entries(env).map(([name, value]) => [`env.${name}`, value])),
    ...Object.fromEntries(outputs),
  }
}

function ofGitHub({ tag, commit }: Stage): Variables {
  return { GITHUB_REF_NAME: tag, GITHUB_SHA: commit.revision, GITHUB_ACTOR: 'dry-run' }
}

/** Of a program that failed; the end of its output has the reason. */
const SAID_CHARS_MAX = 4_096

/**
 * As GitHub runs it where a step names no shell.
 *
 * @param faults what stand-ins said: the script may have caught it, as the `$(…)` of an assignment does
 * @throws with the end of its output where it fails
 */
async function runScript(
  script: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
  faults: () => readonly string[],
): Promise<void> {
  const child = spawn(programOf('bash'), ['-e', '-c', script], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = new Promise<number | null>((resolve, reject) =>
    child.once('error', reject).once('close', resolve),
  )
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  if (code === 0) return
  // 127: the shell found no such program, and no stand-in could say so.
  const unknown = code === 127 ? [`the dry run has no such program: ${WHERE_TO_ADD}`] : []
  const why = [...(faults().length > 0 ? faults() : [stdout, stderr]), ...unknown]
  throw new Error(
    `a step ended with ${code}:\n${script}\n${why.map((one) => one.slice(-SAID_CHARS_MAX)).join('\n')}`,
  )
}
