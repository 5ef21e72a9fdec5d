/** The certificates of the configuration, and how long each of their files can be used. */

import type { FileContent } from './parse.ts'
import { type Lifetime, lifetimeOfAuthorities, lifetimeOfChain } from './pem-files.ts'
import { rowOf, type Settings } from './settings.ts'

const LIFETIME_OF = {
  tlsCert: lifetimeOfChain,
  tlsClientCa: lifetimeOfAuthorities,
  redisCert: lifetimeOfChain,
  redisCa: lifetimeOfAuthorities,
} as const satisfies Partial<Record<keyof Settings, (file: FileContent) => Lifetime | undefined>>

export type CertificateSetting = keyof typeof LIFETIME_OF
export type CertificateFiles = { readonly [K in CertificateSetting]?: FileContent | undefined }

/** @property setting as a configuration file names it, such as `redis.certFile` */
export type ConfiguredCertificate = Lifetime & { readonly setting: string; readonly path: string }

export function certificatesIn(files: CertificateFiles): readonly ConfiguredCertificate[] {
  return (Object.keys(LIFETIME_OF) as CertificateSetting[]).flatMap((key) => {
    const file = files[key]
    const lifetime = file && LIFETIME_OF[key](file)
    if (file === undefined || lifetime === undefined) return []
    return [{ setting: rowOf(key).path, path: file.path, ...lifetime }]
  })
}
