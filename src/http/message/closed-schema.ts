/** A schema of an object that refuses unknown members: a misspelt one would change what is meant without a word. */

import type { TObject, TObjectOptions, TProperties } from 'typebox'
import * as Type from 'typebox'

export function Closed<P extends TProperties>(members: P, options: TObjectOptions = {}): TObject<P> {
  return Type.Object(members, { additionalProperties: false, ...options })
}
