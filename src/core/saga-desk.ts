/**
 * What an operator can ask about sagas, as a port: the sidecar answers it over HTTP where a database is configured.
 *
 * Owns the names of the answers. A saga that is not there, one that cannot be moved and a database that does not answer are
 * values, because what they mean over HTTP is decided there.
 */

export type DeskAnswer =
  | { readonly kind: 'done'; readonly body: unknown }
  | { readonly kind: 'unknown' }
  /** It is there, and in a state in which this cannot be done. */
  | { readonly kind: 'refused'; readonly reason: string }
  | { readonly kind: 'unavailable' }

export interface SagaDesk {
  show(sagaId: string): Promise<DeskAnswer>
  retry(sagaId: string): Promise<DeskAnswer>
  compensate(sagaId: string, reason: string): Promise<DeskAnswer>
  deadLetters(limit: number): Promise<DeskAnswer>
  replay(ids: readonly number[]): Promise<DeskAnswer>
  lag(): Promise<DeskAnswer>
}
