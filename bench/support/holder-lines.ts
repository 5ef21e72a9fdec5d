/** The protocol of bench/lease-profiles.ts for programs of Node: a command and its words on each line, one line as answer. */
import { createInterface } from 'node:readline'

export type HolderCommand = (...words: string[]) => Promise<string>

export async function answerLines(commands: Readonly<Record<string, HolderCommand>>): Promise<void> {
  for await (const line of createInterface(process.stdin)) {
    const [name = '', ...words] = line.split(' ')
    const answer = await (commands[name] as HolderCommand)(...words).catch(
      (error: Error) => `refused: ${error.constructor.name}`,
    )
    console.log(answer.replaceAll('\n', ' '))
  }
}
