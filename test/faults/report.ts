/** The result of a fault run: as JSON for programs, as text for people. The drawing is `timeline.ts`. */

import { byKey } from './checkers/violation.ts'
import { type Latencies, messagesPerSecond, type QuorumLoss } from './experiments.ts'
import { decidedKinds, type RunReport } from './judge.ts'
import type { PorcupineReport } from './porcupine/porcupine.ts'

export function reportAsJson(report: RunReport, commit: string): string {
  const { history, ...rest } = report
  const startedMs = history.startedMs
  const faults = history.faults.map((fault) => ({
    ...fault,
    fromMs: Math.round(fault.fromMs - startedMs),
    untilMs: Math.round(fault.untilMs - startedMs),
    operations: history.operations.filter((one) => one.startMs < fault.untilMs && one.endMs > fault.fromMs)
      .length,
  }))
  return `${JSON.stringify({ commit, ...rest, seen: Object.fromEntries(history.seen), faults }, undefined, 1)}\n`
}

export function reportAsText(report: RunReport): string {
  const { history, answers, repetitions, violations, invalid, latencies, quorumLoss, porcupine } = report
  const counted = (names: readonly string[]) => names.reduce((sum, name) => sum + (answers[name] ?? 0), 0)
  const decisions = (effect: string) =>
    counted(Object.keys(answers).filter((name) => name.startsWith('operator-') && name.endsWith(effect)))
  const by = (...checkers: readonly string[]) =>
    violations.filter(({ checker }) => checkers.includes(checker)).length
  const causes = [...byKey(repetitions, ({ cause }) => cause)].map(
    ([cause, all]) => `    ${String(all.length).padStart(5)}  ${cause}`,
  )
  return [
    `seed ${report.seed}, ${(report.tookMs / 1_000).toFixed(0)} s, ${history.faults.length} faults of ${new Set(history.faults.map(({ id }) => id)).size} kinds`,
    `${report.operations} operations, ${report.executions} executions, ${counted(['replayed'])} replays, ${counted(['lost'])} without an answer to their client`,
    `decisions of an operator: ${decisions('done')} done, ${decisions('unknown')} of unknown effect, ${decisions('nothing')} refused`,
    `  done by kind: ${Object.entries(decidedKinds(history.operations))
      .map(([kind, count]) => `${count} ${kind}`)
      .join(', ')}`,
    '',
    `${by('dedup-register')} double recordings or lost acknowledged completions`,
    `${by('token-order', 'fenced-mutex')} token inversions`,
    `${by('interval-overlap')} overlapping executions without a cause`,
    `${by('answer-time')} hung requests`,
    `${repetitions.length} executions beyond one of their identity, each with its cause:`,
    ...causes,
    ...[...history.seen].map(([sight, count]) => `${count} × ${sight}`),
    ...(porcupine === undefined ? [] : [porcupineAsText(porcupine)]),
    ...latenciesAsText(latencies),
    ...(quorumLoss === undefined
      ? []
      : [
          `quorum lost for ${(quorumLoss.lostForMs / 1_000).toFixed(0)} s: first success of every sidecar ${quorumLoss.recoveredMs.toFixed(0)} ms after it came back`,
          herdAsText(quorumLoss),
        ]),
    ...(report.notRun.length === 0 ? [] : [`not reached in the time: ${report.notRun.join(', ')}`]),
    ...invalid.map((why) => `INVALID: ${why}`),
    ...violations.slice(0, 40).map(({ checker, key, detail }) => `VIOLATION ${checker} ${key}: ${detail}`),
    `${violations.length} violations${invalid.length > 0 ? ', and the run is invalid' : ''}`,
  ].join('\n')
}

function porcupineAsText({
  calls,
  keys,
  operations,
  operationsMost,
  tookMs,
  violations,
}: PorcupineReport): string {
  return `Porcupine: ${violations.length} of ${keys} keys not linearizable or undecided (${calls} lines of history; ${operations} operations, at most ${operationsMost} of a key; ${(tookMs / 1_000).toFixed(1)} s)`
}

export function latenciesAsText(latencies: readonly Latencies[]): readonly string[] {
  return latencies.map(
    ({ what, rounds, samples, p50Ms, p99Ms, noise }) =>
      `acquisition, ${what}: p50 ${p50Ms.toFixed(2)} ms, p99 ${p99Ms.toFixed(2)} ms (${ratioToHealthy(latencies, p99Ms).toFixed(2)} of healthy; ${samples} samples in ${rounds} rounds, of which one half is ${noise.toFixed(2)} of the other)`,
  )
}

export function ratioToHealthy(latencies: readonly Latencies[], p99Ms: number): number {
  return p99Ms / (latencies.find(({ what }) => what === 'healthy')?.p99Ms ?? Number.NaN)
}

function herdAsText(loss: QuorumLoss): string {
  const { ordinary, meanwhile, returning } = messagesPerSecond(loss)
  return `messages to one node in a second, of all sidecars: at most ${ordinary} ordinarily, ${meanwhile} to a node that stood still, ${returning} in the two seconds of the return`
}
