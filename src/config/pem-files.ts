/**
 * PEM files of TLS: certificates and private keys.
 *
 * Owns what is refused at the start instead of at the first handshake. OpenSSL takes a file without a certificate for an
 * empty list of authorities, and stops without a word at the first one of a bundle that it can't read.
 */

import { createPrivateKey, X509Certificate } from 'node:crypto'
import { type FileContent, fileAs } from './parse.ts'
import { refused, type ValueKind, value } from './value.ts'

/** With the other two names under which OpenSSL reads one. */
const CERTIFICATE =
  /-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----[\s\S]*?-----END (?:X509 |TRUSTED )?CERTIFICATE-----/g

/** One certificate with its chain, or several authorities. */
export function certificateFile(): ValueKind<FileContent> {
  return pemFile('the path of a readable PEM file with one certificate or several', whyNoCertificates)
}

export function privateKeyFile(): ValueKind<FileContent> {
  return pemFile('the path of a readable PEM file with one private key without a passphrase', whyNoKey)
}

export type Lifetime = { readonly fromMs: number; readonly untilMs: number }

/** Ends with the first certificate of a chain that does. */
export function lifetimeOfChain(file: FileContent): Lifetime | undefined {
  return byEnd(file).at(0)
}

/** Ends with the last authority that does: an old one stays in the file beside its successor. */
export function lifetimeOfAuthorities(file: FileContent): Lifetime | undefined {
  return byEnd(file).at(-1)
}

function byEnd({ content }: FileContent): readonly Lifetime[] {
  const lifetimes = blocksOf(content).map((block) => {
    const { validFrom, validTo } = new X509Certificate(block)
    return { fromMs: Date.parse(validFrom), untilMs: Date.parse(validTo) }
  })
  return lifetimes.toSorted((a, b) => a.untilMs - b.untilMs)
}

function pemFile(accepts: string, whyNot: (content: string) => string | undefined): ValueKind<FileContent> {
  return fileAs(accepts, (read) => {
    const reason = whyNot(read.content)
    return reason === undefined ? value(read) : refused(reason)
  })
}

function blocksOf(content: string): readonly string[] {
  return content.match(CERTIFICATE) ?? []
}

function whyNoCertificates(content: string): string | undefined {
  const blocks = blocksOf(content)
  const begun = content.split(/-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----/).length - 1
  if (begun === 0) return 'the file has no line -----BEGIN CERTIFICATE-----'
  if (blocks.length < begun) return 'the file ends within a certificate'
  const bad = blocks.findIndex((block) => !isCertificate(block))
  return bad === -1 ? undefined : `certificate ${bad + 1} of ${blocks.length} can't be read`
}

function isCertificate(block: string): boolean {
  try {
    return new X509Certificate(block).raw.length > 0
  } catch {
    return false
  }
}

function whyNoKey(content: string): string | undefined {
  if (!content.includes('PRIVATE KEY-----')) return 'the file has no line -----BEGIN PRIVATE KEY-----'
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: .*ENCRYPTED/m.test(content))
    return 'the key has a passphrase; write it without one, as openssl pkey does, into a file that only fencepost reads'
  try {
    createPrivateKey(content)
    return undefined
  } catch {
    return "the key can't be read"
  }
}

/** The certificate is the first one of its file. Both are accepted by their kinds. */
export function belongTogether(cert: FileContent, key: FileContent): boolean {
  return new X509Certificate(cert.content).checkPrivateKey(createPrivateKey(key.content))
}
