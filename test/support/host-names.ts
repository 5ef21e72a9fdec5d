/** Names that this process and those that it starts resolve, until the test ends: other files run in the same process after it. */
import './host-names.mjs'
import { onTestFinished, vi } from 'vitest'

export function hostNamesAre(names: Readonly<Record<string, readonly string[]>>): void {
  vi.stubEnv('TEST_HOST_NAMES', JSON.stringify(names))
  onTestFinished(() => void vi.unstubAllEnvs())
}
