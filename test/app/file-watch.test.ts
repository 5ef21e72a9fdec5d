/** Files that change while the sidecar runs. */
import { expect, onTestFinished, test } from 'vitest'
import { watchFiles } from '../../src/system/file-watch.ts'
import { VirtualClock } from '../support/virtual-clock.ts'

function watching(...paths: readonly string[]) {
  const clock = new VirtualClock()
  const files = new Map(paths.map((path) => [path, 'first']))
  const readFile = (path: string) => {
    const content = files.get(path)
    if (content === undefined) throw Object.assign(new Error('no such file'), { code: 'ENOENT' })
    return content
  }
  const used: string[] = []
  const watch = watchFiles(paths, readFile, clock, () => used.push(paths.map(readFile).join()))
  onTestFinished(() => watch[Symbol.dispose]())
  return { clock, files, used }
}

test('a change is told once, within a second', async () => {
  const { clock, files, used } = watching('/a')
  await clock.advance(5_000)
  files.set('/a', 'second')
  await clock.advance(1_000)
  expect(used).toEqual(['second'])
  await clock.advance(5_000)
  expect(used).toEqual(['second'])
})

test('a file that is still being written is told when it is whole', async () => {
  const { clock, files, used } = watching('/a', '/b')
  let whole = ''
  for (const part of ['s', 'e', 'c', 'o', 'n', 'd']) {
    whole += part
    files.set('/a', whole)
    await clock.advance(150)
  }
  files.set('/b', 'second')
  await clock.advance(1_000)
  expect(used).toEqual(['second,second'])
})

test('a file that is away for a while has not changed', async () => {
  const { clock, files, used } = watching('/a')
  files.delete('/a')
  await clock.advance(3_000)
  files.set('/a', 'first')
  await clock.advance(3_000)
  expect(used).toEqual([])
})
