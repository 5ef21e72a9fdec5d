/**
 * The table of commands: one line each. A command's file is loaded only when it runs, so that `config check` does not
 * wait for the server's libraries.
 */

import { keepYoungGenerationSmall } from '../app/young-generation.ts'
import type { Command } from './command.ts'

export type CommandRow = { readonly summary: string; readonly load: () => Promise<Command> }

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
    summary: 'show which nodes vote, enrol those that forgot, declare a loss',
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
