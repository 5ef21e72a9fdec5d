/**
 * What was read of an installation: its nodes, certificates, application and sidecar, and how each of them was found.
 *
 * Owns the shapes only; `diagnostics.ts` judges them.
 */

import type { NodeStatus } from '../node-status.ts'

/** NaN and undefined: not known. */
export type NodeSeen = NodeStatus & {
  /** Addresses of its host; empty where the name does not resolve. */
  readonly ips: readonly string[]
  /** Those of them that take no connection. */
  readonly silent: readonly string[]
  readonly details: NodeDetails | undefined
}

export type NodeDetails = {
  /** With the name of the program. */
  readonly version: string
  readonly evictionPolicy: string
  /** Whether it writes an append-only file, and whether its last write succeeded. */
  readonly appendOnly: boolean
  readonly appendOnlyOk: boolean
  /** Each write is on its disk before its answer, as far as the node says. */
  readonly durable: boolean
  readonly usedBytes: number
  /** 0: it has no limit. */
  readonly limitBytes: number
  /** Mean time that its keys have left; 0: not known. */
  readonly meanLeftMs: number
  /** The uncertainty is half of the shortest round trip. */
  readonly clock: { readonly offsetMs: number; readonly uncertaintyMs: number }
  /** Of its TLS certificate; undefined without TLS. */
  readonly certificate: Validity | undefined
}

export type Validity = { readonly fromMs: number; readonly untilMs: number }

export type Installation = {
  readonly groups: readonly {
    readonly name: string
    readonly nodes: readonly NodeSeen[]
    /** Why no vote comes by itself, and what to do; undefined where one may come. */
    readonly standstill?: string | undefined
  }[]
  readonly required: number
  readonly maxSkewMs: number
  /** An answer that comes later does not count. */
  readonly nodeDeadlineMs: number
  readonly longestRetentionMs: number
  readonly certificates: readonly (Validity & { readonly name: string })[]
  readonly wallMs: number
  /** Behind the proxy; `fault`: why it took no connection. Undefined: there is no proxy. */
  readonly application: { readonly address: string; readonly fault: string | undefined } | undefined
  /** This program's version, and the one of the sidecar at the admin address; undefined: it did not answer. */
  readonly versions: { readonly own: string; readonly admin: string; readonly sidecar: string | undefined }
  /** The nodes as that sidecar sees them; undefined: it did not say. */
  readonly atSidecar?: readonly NodeStatus[] | undefined
  /** What it says of near misses: sentences. */
  readonly nearMisses?: readonly string[] | undefined
  readonly rules: { readonly names: readonly string[]; readonly builtIn: boolean }
}
