/**
 * From when until when the configured certificates are valid: two series for each of their files, and none without TLS.
 *
 * Both ends, because what is soon depends on how long a certificate lives: seven days are little of a year, and all of
 * the life of one that is renewed each day.
 */

import type { MakeGauge } from './gauge.ts'

export type CertificateGauges = ReturnType<typeof certificateGauges>

/** @property setting that names the file */
export type ShownCertificate = {
  readonly setting: string
  readonly fromMs: number
  readonly untilMs: number
}

export function certificateGauges(gauge: MakeGauge) {
  const ofSetting = (name: string, help: string) =>
    gauge<'setting'>(name, `${help}, by the setting that names its file.`, { setting: [] })
  return {
    notBefore: ofSetting(
      'fencepost_certificate_not_before_timestamp_seconds',
      'From when the certificate in force is valid',
    ),
    notAfter: ofSetting(
      'fencepost_certificate_not_after_timestamp_seconds',
      'Until when the certificate in force is valid',
    ),
  }
}

export function recordCertificates(
  { notBefore, notAfter }: CertificateGauges,
  certificates: readonly ShownCertificate[],
): void {
  for (const { setting, fromMs, untilMs } of certificates) {
    notBefore.set({ setting }, fromMs / 1_000)
    notAfter.set({ setting }, untilMs / 1_000)
  }
}
