/**
 * A fingerprint shown to a person: its components as text, in the order in which they are hashed.
 *
 * For the debugging endpoint. It holds what the client itself sent: show it to that client, never log it.
 */

import { bytesOf, decodeUtf8, unframe } from '../formats/framing.ts'
import type { Doubt } from './body-form.ts'
import type { Component, Fingerprinted } from './fingerprint.ts'

type Shown = string | readonly Shown[]

type Explanation = {
  readonly scheme: string
  readonly hash: string
  readonly components: readonly {
    readonly name: Component['name']
    readonly value: Shown
    /** The bytes that were hashed, in hex: the value above is for reading. */
    readonly hex: string
  }[]
  readonly body: {
    readonly form: Fingerprinted['body']['form']
    readonly codings: readonly string[]
    readonly doubt?: Doubt
    /** The canonical bytes; `text` where they are valid UTF-8. Left out where longer than the limit. */
    readonly canonical?: { readonly text?: string; readonly base64: string }
    readonly canonicalBytes?: number
  }
}

/** Longest canonical body that is shown; of a longer one only the length. */
export const SHOWN_BODY_BYTES_MAX = 64 * 1024

export function explain(fingerprinted: Fingerprinted): Explanation {
  const { form, codings, doubt, canonical } = fingerprinted.body
  return {
    scheme: fingerprinted.scheme,
    hash: fingerprinted.hash,
    components: fingerprinted.components.map(({ name, byteText }) => {
      const bytes = bytesOf(byteText)
      return { name, value: shown(name, bytes), hex: bytes.toString('hex') }
    }),
    body: {
      form,
      codings,
      ...(doubt !== undefined && { doubt }),
      ...(canonical !== undefined && { canonicalBytes: canonical.length }),
      ...(canonical !== undefined &&
        canonical.length <= SHOWN_BODY_BYTES_MAX && { canonical: shownBody(canonical) }),
    },
  }
}

function shown(name: Component['name'], bytes: Buffer): Shown {
  switch (name) {
    case 'scheme':
    case 'tenant':
    case 'env':
    case 'api_version':
    case 'principal':
    case 'body_form':
      return bytes.toString('utf8')
    case 'method':
    case 'path':
      return bytes.toString('latin1')
    case 'query':
    case 'media_type':
    case 'codings':
      return texts(bytes)
    case 'headers':
      return (unframe(bytes) ?? []).map(texts)
    case 'body_sha256':
      return bytes.toString('hex')
  }
}

function texts(framed: Buffer): readonly string[] {
  return (unframe(framed) ?? []).map((part) => part.toString('latin1'))
}

function shownBody(canonical: Uint8Array): { text?: string; base64: string } {
  const text = decodeUtf8(canonical)
  return { ...(text !== undefined && { text }), base64: Buffer.from(canonical).toString('base64') }
}
