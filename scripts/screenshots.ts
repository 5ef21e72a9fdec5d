/**
 * Takes the pictures of the operator's page in docs/pictures: its four views, in light and dark, of a real sidecar with five nodes of
 * which one differs; and of the page of the saga kit.
 * `npm run generate -- screenshots`, or `npm run generate -- screenshots FOLDER` for pictures elsewhere.
 */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page } from 'playwright-core'
import { startChromium } from '../test/support/chromium.ts'
import { eventually } from '../test/support/eventually.ts'
import { OPERATE_TOKEN } from '../test/support/operator-caller.ts'
import { signIn } from '../test/support/operator-page.ts'
import { openOperatorScene } from '../test/support/operator-scene.ts'
import { startPostgres } from '../test/support/postgres-server.ts'
import { testKit } from '../test/support/saga-kit.ts'
import { startSagaServer } from '../test/support/saga-server.ts'
import { givenUpMessage, parkedSaga } from '../test/support/stuck-sagas.ts'
import { bundleSidecar } from './bundle.ts'

const root = join(import.meta.dirname, '..')
const folder = process.argv[2] ?? join(root, 'docs/pictures')
/** So long that the charts of the overview have a line. */
const LOAD_MS = 25_000

const built = mkdtempSync(join(tmpdir(), 'fencepost-screenshots-'))
try {
  copyFileSync(join(root, 'package.json'), join(built, 'package.json'))
  await bundleSidecar(join(built, 'dist'))
  await takeAll(join(built, 'dist/main.js'))
} finally {
  rmSync(built, { recursive: true, force: true })
}

async function takeAll(main: string): Promise<void> {
  mkdirSync(folder, { recursive: true })
  await using scene = await openOperatorScene({ main })
  await using browser = await startChromium()
  const { record, comeBack } = await scene.stuck('held-4711')
  // The next renewal repairs it.
  const oneDiffers = () => scene.dropOnNode(4, record)
  const other = await scene.stuck('held-4712')
  const reason = 'ticket 4712: the provider confirms that nothing was charged'
  await scene.operator.decide('forget', other.record, { even_though: 'live', reason })
  await using postgres = await startPostgres()
  const kit = await testKit(postgres)
  await parkedSaga(kit, 'order-4711')
  await givenUpMessage(kit, 'order-4713', { order: 'order-4713' })
  await using sagas = await startSagaServer(postgres.url, kit.schemaName)
  for (const colorScheme of ['light', 'dark'] as const) {
    const { page } = await browser.open({ colorScheme, viewport: { width: 1_100, height: 900 } })
    await signIn(page, scene.sidecar.operator, OPERATE_TOKEN)
    for (const [name, hash] of [
      ['find', '#/find'],
      ['record', `#/record/${encodeURIComponent(record)}`],
      ['overview', '#/overview'],
      ['audit', '#/audit'],
    ] as const) {
      await oneDiffers()
      // The overview shows what happens now.
      if (name === 'overview') {
        await load(scene, colorScheme)
        await scene.slowCommand(2, 'a-key')
      }
      await take(page, `page-${name}-${colorScheme}`, hash, oneDiffers)
    }
    const httpCredentials = { username: 'bob', password: OPERATE_TOKEN }
    const ofKit = await browser.open({
      colorScheme,
      viewport: { width: 1_100, height: 900 },
      httpCredentials,
    })
    await ofKit.page.goto(`${sagas.origin}/`)
    await shot(ofKit.page, `page-sagas-${colorScheme}`)
    const phone = await browser.open({ colorScheme, viewport: { width: 400, height: 900 } })
    await signIn(phone.page, scene.sidecar.operator, OPERATE_TOKEN)
    await oneDiffers()
    await take(phone.page, `page-phone-${colorScheme}`, `#/record/${encodeURIComponent(record)}`, oneDiffers)
  }
  await Promise.all([comeBack(), other.comeBack()])
}

async function take(page: Page, name: string, hash: string, oneDiffers: () => Promise<void>): Promise<void> {
  await page.evaluate(`location.hash = ${JSON.stringify(hash)}`)
  await page.getByRole('heading', { level: 1 }).waitFor()
  if (name.includes('find')) {
    await page.getByLabel('Path').fill('/payments')
    await page.getByLabel('Idempotency key').fill('held-4711')
    await page.getByRole('button', { name: 'Live claims, oldest first' }).click()
    await page.getByRole('table').waitFor()
  }
  if (name.includes('record') || name.includes('phone')) {
    // The view is live until the decision is opened: a renewal may have repaired the node meanwhile.
    await eventually('the node that differs is shown', async () => {
      if ((await page.getByText('differs', { exact: true }).count()) > 0) return true
      await oneDiffers()
      return undefined
    })
    await page.getByRole('button', { name: /will not end/ }).click()
    await page.getByLabel('Reason').fill('ticket 4711: the worker was killed')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByRole('region', { name: 'Preview' }).waitFor()
  }
  await eventually('every answer is there', async () => (await page.getByText('Looking …').count()) === 0)
  await page.evaluate('scrollTo(0, 0)')
  await shot(page, name)
}

async function shot(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(folder, `${name}.png`), fullPage: true })
  console.log(`${name}.png`)
}

/** Payments, each sent twice, some at once with the first: every line of the charts moves. */
async function load({ pay }: Awaited<ReturnType<typeof openOperatorScene>>, name: string): Promise<void> {
  const untilMs = performance.now() + LOAD_MS
  for (let at = 0; performance.now() < untilMs; at += 1) {
    const key = `order-${name}-${at}`
    await Promise.all([pay(key), ...(at % 3 === 0 ? [pay('held-4711')] : [])])
    if (at % 2 === 0) await pay(key)
    await new Promise((resolve) => setTimeout(resolve, 20 + 80 * Math.abs(Math.sin(at / 25))))
  }
}
