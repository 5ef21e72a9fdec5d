/**
 * From the command line to the command: `fencepost <command> [arguments…]`. A command's file is loaded only when it runs, so that
 * `config check` does not wait for the server's libraries.
 */

import { keepYoungGenerationSmall } from '../app/young-generation.ts'
import { type Command, EXIT, type ExitCode, type Io, refused, withArguments } from './command.ts'

/** Runs the command that `args` name. What it throws is a defect and is left to the caller. */
export async function program(args: readonly string[], io: Io): Promise<ExitCode> {
  const { version, nodeVersion, oldestNode } = io
  if (isOlder(nodeVersion, oldestNode))
    return refused(
      io,
      `fencepost ${version} needs Node.js ${oldestNode} or newer, and this is ${nodeVersion}: install that, or run the container image, which has its own`,
      EXIT.configuration,
    )
  const row = args[0] !== undefined && Object.hasOwn(COMMANDS, args[0]) ? COMMANDS[args[0]] : undefined
  if (row !== undefined) return (await row.load())(args.slice(1), io)
  return frontPage(args, io)
}

function isOlder(version: string, than: string): boolean {
  return version.localeCompare(than, 'en', { numeric: true }) < 0
}

/** `--help`, `--version`, and everything that is no command. */
const frontPage: Command = (args, io) =>
  withArguments('', args, io, (parser) => {
    parser
      .description(
        'Makes one logical HTTP request happen once: a deduplication sidecar on a quorum of Redis nodes.',
      )
      .version(io.version, '-V, --version', 'print the version')
      .addHelpText(
        'after',
        '\nSettings are FENCEPOST_* variables and a YAML file named by FENCEPOST_CONFIG: see docs/reference/configuration.md.',
      )
    // For the list and for suggestions only: existing commands were found above.
    for (const [name, { summary }] of Object.entries(COMMANDS))
      parser.command(name).summary(summary).description(summary)
  })

type CommandRow = { readonly summary: string; readonly load: () => Promise<Command> }

export const COMMANDS: Readonly<Record<string, CommandRow>> = {
  serve: {
    summary: 'run the sidecar',
    load: async () => {
      keepYoungGenerationSmall()
      return (await import('./serve.ts')).serve
    },
  },
  demo: {
    summary: 'show a storm of duplicates on five nodes carried out once',
    load: async () => (await import('./demo.ts')).demo,
  },
  'dead-letters': {
    summary: 'list, requeue and discard requests of which nobody knows whether they were carried out',
    load: async () => (await import('./dead-letters.ts')).deadLetters,
  },
  nodes: {
    summary: 'show which nodes vote, bring back those that forgot, declare a loss',
    load: async () => (await import('./nodes.ts')).nodes,
  },
  records: {
    summary: 'find one record, see it on every node, and decide about it, through the operator listener',
    load: async () => (await import('./records.ts')).records,
  },
  probe: {
    summary: 'flood running sidecars with synthetic duplicates and judge the answers',
    load: async () => (await import('./probe.ts')).probe,
  },
  doctor: {
    summary: 'say what is not well with this installation, and what to do',
    load: async () => (await import('./doctor.ts')).doctor,
  },
  observe: {
    summary: 'report what routes in mode observe would have done, with a routes file that enforces it',
    load: async () => (await import('./observe.ts')).observe,
  },
  selftest: {
    summary: 'reserve, be refused a duplicate, release and reserve again; count the nodes',
    load: async () => (await import('./selftest.ts')).selftest,
  },
  config: {
    summary: 'check and show the configuration, or print the JSON Schema of its file',
    load: async () => (await import('./config.ts')).config,
  },
}
