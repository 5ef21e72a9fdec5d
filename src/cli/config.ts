/**
 * `fencepost config check | print | schema`: the configuration as `serve` would see it.
 */

import { hintsFor } from '../config/hints.ts'
import { type LoadedConfig, loadConfig } from '../config/load.ts'
import { printedConfig, textOfConfig } from '../config/print.ts'
import { fileSchema } from '../config/route-fields.ts'
import { CONFIG_FILE_ENV } from '../config/settings.ts'
import { type Command, EXIT, type ExitCode, type Io, refusedConfig, withArguments } from './command.ts'

export type FileOption = { readonly file?: string }

export const config: Command = (args, io) =>
  withArguments('config', args, io, (parser, done) => {
    parser.description('The configuration as `fencepost serve` would see it, from environment and file.')
    const fileOption = ['-f, --file <path>', `YAML file, instead of ${CONFIG_FILE_ENV}`] as const
    parser
      .command('check')
      .description('say whether it is accepted; every error at once, exit 78')
      .option(...fileOption)
      .action((options: FileOption) => done(check(load(options, io), io)))
    parser
      .command('print')
      .description('print every effective value and where it comes from; secrets are masked')
      .option(...fileOption)
      .option('--json', 'as JSON')
      .action((options: FileOption & { readonly json?: true }) =>
        done(print(load(options, io), options.json === true, io)),
      )
    parser
      .command('schema')
      .description('print the JSON Schema of the YAML file')
      .action(() => {
        io.stdout.write(`${JSON.stringify(fileSchema(), undefined, 2)}\n`)
      })
  })

export function load(options: FileOption, io: Io): LoadedConfig {
  const env = options.file === undefined ? io.env : { ...io.env, [CONFIG_FILE_ENV]: options.file }
  return loadConfig(env, io.readFile)
}

function check(loaded: LoadedConfig, io: Io): ExitCode {
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  io.stdout.write('The configuration is accepted.\n')
  for (const hint of hintsFor(loaded.config)) io.stdout.write(`Warning: ${hint}\n`)
  return EXIT.ok
}

function print(loaded: LoadedConfig, asJson: boolean, io: Io): ExitCode {
  if (loaded.kind === 'invalid') return refusedConfig(loaded, io)
  const printed = printedConfig(loaded)
  io.stdout.write(asJson ? `${JSON.stringify(printed, undefined, 2)}\n` : textOfConfig(printed))
  return EXIT.ok
}
