/**
 * From the command line to the command: `fencepost <command> [arguments…]`.
 */

import { type Command, EXIT, type ExitCode, type Io, withArguments } from './command.ts'
import { COMMANDS } from './commands.ts'

/** Runs the command that `args` name. What it throws is a defect and is left to the caller. */
export async function program(args: readonly string[], io: Io): Promise<ExitCode> {
  const { version, nodeVersion, oldestNode } = io
  if (isOlder(nodeVersion, oldestNode)) {
    io.stderr.write(
      `fencepost ${version} needs Node.js ${oldestNode} or newer, and this is ${nodeVersion}: install that, or run the container image, which has its own\n`,
    )
    return EXIT.configuration
  }
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
