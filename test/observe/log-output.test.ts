// What the log does while standard output takes nothing: lines are lost and counted, and nothing else happens.
import { describe, expect, test } from 'vitest'
import { logFile } from '../../src/cli/files.ts'
import { createLog, type LogTarget } from '../../src/observe/log.ts'

const MIB = 1024 * 1024

function logTo(target: LogTarget) {
  const counted = { lost: 0 }
  const onLost = () => {
    counted.lost += 1
  }
  return { log: createLog({ level: 'info', instance: 'pod-1', target, onLost }), counted }
}

/** A file on a disk that takes so many bytes. */
function disk() {
  const file = { room: Number.POSITIVE_INFINITY, text: '' }
  const target = logFile((bytes) => {
    if (file.room === 0) throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
    const part = bytes.subarray(0, file.room)
    file.text += Buffer.from(part).toString()
    file.room -= part.length
    return part.length
  })
  return { file, target }
}

// Bug: the first line that a full disk did not take ended the sidecar.
test('lines that the disk has no room for are lost, and the log says how many once there is room', () => {
  const { file, target } = disk()
  const { log, counted } = logTo(target)
  log.info('before')
  file.room = 0
  for (const line of ['one', 'two', 'three']) log.info(line)
  expect(counted.lost).toBe(3)
  file.room = Number.POSITIVE_INFINITY
  log.info('after')
  log.info('later')
  expect(
    file.text
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  ).toMatchObject([
    { message: 'before' },
    { message: 'after' },
    { level: 'warn', event: 'lines_lost', lost: 3 },
    { message: 'later' },
  ])
})

test('a line that was cut off by the full disk spoils none after it', () => {
  const { file, target } = disk()
  const { log } = logTo(target)
  file.room = 10
  log.info('cut off')
  file.room = Number.POSITIVE_INFINITY
  log.info('after')
  const [cut, ...whole] = file.text.trim().split('\n')
  expect(cut).toHaveLength(10)
  expect(whole.map((line) => JSON.parse(line))).toMatchObject([
    { message: 'after' },
    { event: 'lines_lost', lost: 1 },
  ])
})

test('where the notice is lost, too, a later one has all of them', () => {
  const lines: string[] = []
  const taken = [false, false, true, false, true, true]
  const { log } = logTo({
    write: (line) => {
      if (taken.shift() === false) throw new Error('no room')
      lines.push(line)
    },
  })
  for (const line of ['lost', 'lost', 'taken', 'taken']) log.info(line)
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { message: 'taken' },
    { message: 'taken' },
    { event: 'lines_lost', lost: 3 },
  ])
})

describe('a reader that stands still', () => {
  function pipe() {
    const lines: string[] = []
    const target = { writableLength: 0, destroyed: false, write: (line: string) => void lines.push(line) }
    return { lines, target, ...logTo(target) }
  }

  // Bug: lines waited in memory without a limit, until the container had none left.
  test('has a MiB kept for it, and no more', () => {
    const { lines, target, log, counted } = pipe()
    target.writableLength = MIB
    log.info('kept')
    target.writableLength = MIB + 1
    log.info('lost')
    expect(lines).toHaveLength(1)
    expect(counted.lost).toBe(1)
  })

  test('is told how many lines were lost when it has taken half of what waited', () => {
    const { lines, target, log } = pipe()
    target.writableLength = MIB + 1
    log.info('lost')
    target.writableLength = MIB
    log.info('lost')
    target.writableLength = MIB / 2
    log.info('taken')
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { message: 'taken' },
      { event: 'lines_lost', lost: 2 },
    ])
  })

  test('and has gone, gets nothing', () => {
    const { lines, target, log, counted } = pipe()
    target.destroyed = true
    log.info('lost')
    expect([lines, counted.lost]).toEqual([[], 1])
  })
})
