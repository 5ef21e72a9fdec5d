/** A body while it arrives: what its reader sees, whenever the reader comes. */
import { buffer } from 'node:stream/consumers'
import type { Dispatcher } from 'undici'
import { expect, test } from 'vitest'
import { AnswerBody } from '../../src/upstream/answer-body.ts'

/** A connection that notes what is asked of it. */
function connection() {
  const asked: string[] = []
  const controller = {
    pause: () => void asked.push('pause'),
    resume: () => void asked.push('resume'),
    abort: ({ message }: Error) => void asked.push(`abort: ${message}`),
  }
  return { asked, controller: controller as unknown as Dispatcher.DispatchController }
}

test('it is whole once it has arrived to its end, and not before', () => {
  const body = new AnswerBody(connection().controller)
  expect(body.whole()).toBe(undefined)
  body.push(Buffer.from('pa'))
  body.push(Buffer.from('id'))
  expect(body.whole()).toBe(undefined)
  body.end()
  expect(body.whole()).toEqual(Buffer.from('paid'))
})

test.each<[what: string, ends: (body: AnswerBody) => void]>([
  ['has ended', (body) => body.end()],
  ['was cut', (body) => body.cut(new Error('cut'))],
])('it is over once it %s, whenever that is asked for', async (_what, ends) => {
  const body = new AnswerBody(connection().controller)
  const before = body.over()
  ends(body)
  await Promise.all([before, body.over()])
})

test('what is kept of a whole body is the body, and not all that was read with it', () => {
  const read = Buffer.from('HTTP/1.1 200 OK\r\n\r\npaid')
  const body = new AnswerBody(connection().controller)
  body.push(read.subarray(-4))
  body.end()
  const whole = body.whole()
  read.fill(0)
  expect(whole).toEqual(Buffer.from('paid'))
})

test('a cut body is never whole, and its stream fails with the reason, also where it is asked for later', async () => {
  for (const asked of ['before', 'after'] as const) {
    const body = new AnswerBody(connection().controller)
    body.push(Buffer.from('pa'))
    const early = asked === 'before' ? body.stream() : undefined
    body.cut(new Error('the connection was reset'))
    expect(body.whole()).toBe(undefined)
    await expect(buffer(early ?? body.stream())).rejects.toThrow('the connection was reset')
  }
})

test('a stream has all of it, what arrived before it and after it', async () => {
  const body = new AnswerBody(connection().controller)
  body.push(Buffer.from('p'))
  const read = buffer(body.stream())
  body.push(Buffer.from('ai'))
  body.push(Buffer.from('d'))
  body.end()
  expect(await read).toEqual(Buffer.from('paid'))
})

test('the connection is paused where 64 KiB wait, with a stream or without, and goes on for a reader', () => {
  for (const streamed of [false, true]) {
    const { asked, controller } = connection()
    const body = new AnswerBody(controller)
    if (streamed) body.stream()
    body.push(Buffer.alloc(64 * 1024 - 1))
    expect(asked).toEqual([])
    body.push(Buffer.alloc(1))
    expect(asked).toEqual(['pause'])
    body.stream().read()
    expect(asked).toContain('resume')
  }
})

test('a reader that leaves ends the exchange; one that leaves a whole body does not', () => {
  for (const [end, expected] of [
    [false, ['abort: nobody reads the answer any more']],
    [true, []],
  ] as const) {
    const { asked, controller } = connection()
    const body = new AnswerBody(controller)
    body.push(Buffer.from('paid'))
    if (end) body.end()
    body.stream().destroy()
    expect(asked).toEqual(expected)
  }
})
