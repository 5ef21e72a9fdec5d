/**
 * A real browser for the operator's page: Chromium of the system, without a window, with a profile of its own that is removed at the
 * end.
 */
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { requireProgram } from './programs.ts'

export type TestBrowser = AsyncDisposable & {
  /** A new tab that shares nothing with others. What the browser complains of is collected: a refused script, a failed load. */
  open(
    options?: BrowserContextOptions,
  ): Promise<{ readonly page: Page; readonly complaints: readonly string[] }>
}

/** A busy machine needs long for its first tab. */
const WITHIN_MS = 45_000

/** @param names hosts that it finds at an address, whatever a name server says */
export async function startChromium(names: Readonly<Record<string, string>> = {}): Promise<TestBrowser> {
  const rules = Object.entries(names).map(([name, address]) => `MAP ${name} ${address}`)
  const browser: Browser = await chromium.launch({
    executablePath: requireProgram('chromium'),
    timeout: WITHIN_MS,
    // Containers have little shared memory, and no graphics card.
    args: [
      '--disable-dev-shm-usage',
      '--disable-gpu',
      '--no-first-run',
      '--disable-extensions',
      ...(rules.length === 0 ? [] : [`--host-resolver-rules=${rules.join(', ')}`]),
    ],
  })
  return {
    open: async (options) => {
      const context = await browser.newContext(options)
      context.setDefaultTimeout(WITHIN_MS)
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('console', (message) => {
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(String(error)))
      return { page, complaints }
    },
    [Symbol.asyncDispose]: () => browser.close(),
  }
}
