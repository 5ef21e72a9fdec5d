/**
 * Synthetic duplicates through the proxy: copies with one key at the same moment, then once more, then with other content.
 *
 * The application behind the proxy is the probe's own, which counts: nothing else proves how often a request was executed.
 */

import type { ProbedApplication } from './application.ts'
import { type FloodOptions, headerOf, listenerOf, post, type Reply, saidBy, statusOf } from './call.ts'
import { type Copy, type Finding, finding, judgeProxied, type Result, type Volley } from './verdict.ts'

export async function proxyVolley(
  number: number,
  options: FloodOptions,
  application: ProbedApplication,
): Promise<Volley> {
  const startedMs = performance.now()
  const key = `probe-${options.run}-proxy-${number}`
  const counted = application.expect(key)
  const send = async (content: 'first' | 'other', copy: number): Promise<Sent> => {
    const url = listenerOf(options, number, copy)
    const headers = {
      'idempotency-key': key,
      'x-tenant-id': options.tenant,
      'content-type': 'application/json',
    }
    const body = JSON.stringify({ probe: options.run, content })
    const reply = await post(`${url}${options.path}`, headers, body, options.timeoutMs)
    return { url, reply, copy: copyOf(reply) }
  }
  const sent = await Promise.all(Array.from({ length: options.copies }, (_, copy) => send('first', copy)))
  const durationMs = performance.now() - startedMs
  const bodies = new Set(sent.flatMap(({ reply }) => (statusOf(reply) === 201 ? [textOf(reply)] : [])))
  const executions = counted.executions()
  const copies = sent.map(({ copy }) => copy)
  const result = judgeProxied({ copies, executions, bodies: bodies.size })
  const failed = sent.find(({ copy }) => copy === 'failed')
  const findings = [finding('one', result, whyOf(failed, executions))]
  let requests = sent.length
  if (result === 'ok') {
    const [again, other] = [await send('first', options.copies), await send('other', options.copies + 1)]
    findings.push(...judgeFurther(again, other, [...bodies][0], counted.executions()))
    requests += 2
  }
  counted.forget()
  return { entrypoint: 'proxy', findings, requests, durationMs }
}

type Sent = { readonly url: string; readonly reply: Reply; readonly copy: Copy }

function judgeFurther(again: Sent, other: Sent, recorded: string | undefined, executions: number): Finding[] {
  const isReplay = statusOf(again.reply) === 201 && headerOf(again.reply, STATUS) === 'replayed'
  const same = recorded === undefined || textOf(again.reply) === recorded
  let replay: Result = 'error'
  if (executions > 1 || (isReplay && !same) || again.copy === 'granted') replay = 'false_negative'
  else if (isReplay) replay = 'ok'
  let mismatch: Result = 'error'
  if (statusOf(other.reply) === 422) mismatch = 'ok'
  else if (other.copy === 'granted') mismatch = 'false_negative'
  else if (statusOf(other.reply) === 201) mismatch = 'false_positive'
  return [
    finding('replay', replay, saidBy(again.url, again.reply)),
    finding('mismatch', mismatch, saidBy(other.url, other.reply)),
  ]
}

const STATUS = 'idempotency-status'

function copyOf(reply: Reply): Copy {
  switch (statusOf(reply)) {
    case 201:
      return headerOf(reply, STATUS) === 'created'
        ? 'granted'
        : headerOf(reply, STATUS) === 'replayed'
          ? 'refused'
          : 'failed'
    case 409:
      return 'refused'
    default:
      return 'failed'
  }
}

function textOf(reply: Reply): string {
  return reply.kind === 'reply' ? reply.text : ''
}

function whyOf(failed: Sent | undefined, executions: number): string {
  if (failed === undefined)
    return `the application counted ${executions} executions; if it counts none, this sidecar's application (FENCEPOST_UPSTREAM) is another one`
  if (statusOf(failed.reply) !== 201) return saidBy(failed.url, failed.reply)
  return `${failed.url} answered 201 with Idempotency-Status ${headerOf(failed.reply, STATUS) ?? 'missing'}: no route of it protects the path of the probe, or the quorum did not take the outcome`
}
