/** The operator's page in a tab, as its reader uses it: by the names of fields, buttons and headings. */
import { createRequire } from 'node:module'
import type { Page } from 'playwright-core'
import { eventually } from './eventually.ts'

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')

type Violation = {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly { readonly html: string }[]
}

/** A phone. axe is put into the page from outside, which the page itself forbids. */
export const phone = (colorScheme: 'light' | 'dark') =>
  ({ colorScheme, viewport: { width: 400, height: 800 }, bypassCSP: true }) as const

/** What of a view keeps people from using it, as axe-core finds it, and how wide it is. */
export async function accessibilityOf(page: Page, hash: string) {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await eventually('every answer is there', async () => (await page.getByText('Looking …').count()) === 0)
  if (hash.startsWith('#/record')) await page.getByRole('button', { name: 'It was executed' }).click()
  return axeOf(page)
}

export async function axeOf(page: Page) {
  await page.addScriptTag({ path: AXE })
  const { violations, passes } = (await page.evaluate('axe.run()')) as {
    violations: readonly Violation[]
    passes: readonly unknown[]
  }
  const serious = violations
    .filter(({ impact }) => ['serious', 'critical'].includes(impact))
    .map(({ id, nodes }) => [id, nodes.map(({ html }) => html)])
  return {
    serious,
    rulesRun: passes.length > 10,
    width: await page.evaluate('document.scrollingElement.scrollWidth'),
  }
}

export async function signIn(page: Page, origin: string, token: string, hash = ''): Promise<void> {
  await page.goto(`${origin}/${hash}`)
  await page.getByLabel('Your token').fill(token)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/** From the landing field to the record of a payment. */
export async function findPayment(page: Page, key: string): Promise<void> {
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByLabel('Path').fill('/payments')
  await page.getByLabel('Idempotency key').fill(key)
  await page.getByRole('button', { name: 'Find', exact: true }).click()
  await page.getByRole('heading', { name: /^The quorum says/ }).waitFor()
}

/** Opens the decision for what is known, gives a reason, and looks at the preview. */
export async function preview(page: Page, known: string | RegExp, reason: string): Promise<string> {
  await page.getByRole('button', { name: known }).click()
  await page.getByLabel('Reason').fill(reason)
  await page.getByRole('button', { name: 'Preview' }).click()
  return page.getByRole('region', { name: 'Preview' }).innerText()
}
