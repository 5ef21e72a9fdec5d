/**
 * Brings a node that restarted with its data back to voting, one step at a time, over any kind of node.
 *
 * Owns the acts, and the progress of copying to each node. `continuity.ts` decides which act is sound when;
 * `union-copying.ts` reads the sources. A step that is not allowed, or fails, leaves the node to its quarantine.
 */

import { driftMs } from '../clock-drift.ts'
import { type Continuity, type ContinuityView, judgeContinuity } from './continuity.ts'
import type { EnrolmentNode } from './enrolment-node.ts'
import type { Cluster, CopyProgress, Quarantine } from './enrolment-rules.ts'
import {
  hasHeard,
  heardAs,
  takeUnionTurn,
  type UnionPorts,
  type UnionProgress,
  type UnionSource,
} from './union-copying.ts'

export type ContinuityTurn =
  | { readonly kind: 'wait'; readonly remainingMs: number }
  | { readonly kind: 'busy' | 'gone' }
  /** `told`: so many records were copied to it before; absent: it had forgotten nothing. */
  | { readonly kind: 'enrolled'; readonly told?: number }
  | { readonly kind: 'told'; readonly progress: CopyProgress }

/** How the process that does it sees the nodes. */
export type Watcher = {
  /** By the last look. */
  view(): ContinuityView
  /** Looks at all nodes again. */
  lookAgain(): Promise<unknown>
  /** The node of that index, as a source of records. */
  sourceOf(index: number): UnionSource['node'] | undefined
}

export type ContinuingPorts = UnionPorts & {
  readonly watcher: Watcher
  /** Takes the work on this node; false: another sidecar has it. */
  readonly occupy: () => Promise<boolean>
}

/** The progress of copying to each node, kept by the process that copies. */
export class Continuing {
  readonly #told = new Map<number, { readonly nonce: string; readonly progress: UnionProgress }>()

  /**
   * The next step for a waiting node; undefined where its data do not suffice, and it goes through its quarantine.
   *
   * @param index of the node among those of the view
   * @param observedForMs since this process first saw it wait
   */
  async turn(
    target: EnrolmentNode,
    index: number,
    quarantine: Quarantine,
    observedForMs: number,
    cluster: Cluster,
    { watcher, occupy, ...ports }: ContinuingPorts,
  ): Promise<ContinuityTurn | undefined> {
    if (quarantine.declaredBy !== undefined) return undefined
    const { nonce } = quarantine
    const verdict = judgeAt(index, watcher.view())
    if (verdict?.kind !== 'intact' && verdict?.kind !== 'union') return undefined
    const enrol = () => target.enrol(nonce, cluster)
    if (verdict.kind === 'intact') {
      if (!(await occupy())) return { kind: 'busy' }
      // The other nodes as they are now: one of them may know of a later pulse than at the last look.
      await watcher.lookAgain()
      if (judgeAt(index, watcher.view())?.kind !== 'intact') return undefined
      return { kind: (await enrol()) ? 'enrolled' : 'gone' }
    }
    const remainingMs = answersCountForMs(watcher.view()) - observedForMs
    if (remainingMs > 0) return { kind: 'wait', remainingMs }
    if (!(await occupy())) return { kind: 'busy' }
    const { required, toleratedStepMs } = watcher.view()
    const known = this.#told.get(index)
    const before = known?.nonce === nonce ? known.progress : undefined
    const { quarantineMs } = cluster
    const terms = { quarantine, quarantineMs, required, slackMs: 2 * toleratedStepMs }
    const progress = await takeUnionTurn(target, sourcesOf(watcher), before, terms, ports)
    this.#told.set(index, { nonce, progress })
    if (!hasHeard(progress, sourcesOf(watcher))) return { kind: 'told', progress: progress.copied }
    const leasesMs = progress.told.leasesUntilMonoMs - ports.monoMs()
    if (leasesMs > 0) return { kind: 'wait', remainingMs: leasesMs }
    // Each source as it is now: one that restarted or was flushed meanwhile is read again, and may be one too many.
    await watcher.lookAgain()
    if (judgeAt(index, watcher.view())?.kind !== 'union' || !hasHeard(progress, sourcesOf(watcher)))
      return { kind: 'told', progress: progress.copied }
    this.#told.delete(index)
    return (await enrol()) ? { kind: 'enrolled', told: progress.copied.copied } : { kind: 'gone' }
  }
}

/** Undefined where the node does not wait. */
export function judgeAt(index: number, view: ContinuityView): Continuity | undefined {
  const target = view.nodes[index]
  return target?.kind === 'waiting' ? judgeContinuity(target, view) : undefined
}

/** For so long after a node restarted, a round may still count its earlier answers. */
function answersCountForMs({ answerMaxAgeMs }: ContinuityView): number {
  return answerMaxAgeMs + driftMs(answerMaxAgeMs)
}

/** The sources that the rule counts as heard. */
function sourcesOf(watcher: Watcher): readonly UnionSource[] {
  return watcher.view().nodes.flatMap((its, index): UnionSource[] => {
    const node = watcher.sourceOf(index)
    if (node === undefined || its.kind === 'silent') return []
    if (its.kind === 'waiting' && !its.clockAgrees) return []
    return [{ node, runId: heardAs(its), voting: its.kind === 'voting' }]
  })
}
