/** The process ports of a command, with its output kept. */
import { Writable } from 'node:stream'
import type { Io } from '../../src/cli/command.ts'

export function bufferedIo(env: Readonly<Record<string, string>>) {
  const [stdout, stderr] = [keep(), keep()]
  const io: Io = {
    env,
    stdout: stdout.stream,
    logTo: stdout.stream,
    stderr: stderr.stream,
    readFile: absent,
    readBytes: absent,
    signals: { onStop: () => () => {}, onLeave: () => {} },
    version: '0.0.0',
    nodeVersion: '26.0.0',
    oldestNode: '22.19.0',
    hostname: 'test',
    nodeOptions: [],
    leaveOpen: () => {},
    onParentMessage: () => {},
  }
  return { io, stdout: stdout.text, stderr: stderr.text }
}

function absent(path: string): never {
  throw new Error(`no file ${path} here`)
}

function keep() {
  let text = ''
  const stream = new Writable({
    write: (chunk, _encoding, done) => {
      text += chunk
      done()
    },
  })
  return { stream, text: () => text }
}
