/** Every view of the operator's page on a phone, in light and dark: nothing keeps people from using it. A slice: page.test.ts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startChromium, type TestBrowser } from '../support/chromium.ts'
import { OPERATE_TOKEN } from '../support/operator-caller.ts'
import { accessibilityOf, phone, signIn } from '../support/operator-page.ts'
import { type OperatorScene, openOperatorScene } from '../support/operator-scene.ts'

const stack = new AsyncDisposableStack()
let scene: OperatorScene
let browser: TestBrowser
beforeAll(async () => {
  scene = stack.use(await openOperatorScene())
  browser = stack.use(await startChromium())
  await scene.pay('hostile')
  await scene.operator.decide('forget', await scene.recordOf('hostile'), { even_though: 'completed' })
  await scene.pay('hostile')
})
afterAll(() => stack.disposeAsync())

test.each(['light', 'dark'] as const)(
  'in %s no view has a serious fault, and none is wider than the screen',
  async (colorScheme) => {
    const { page } = await browser.open(phone(colorScheme))
    await signIn(page, scene.sidecar.operator, OPERATE_TOKEN)
    const record = `#/record/${encodeURIComponent(await scene.recordOf('hostile'))}`
    for (const view of ['#/find', record, '#/overview', '#/audit'])
      expect([view, await accessibilityOf(page, view)]).toEqual([
        view,
        { serious: [], rulesRun: true, width: 400 },
      ])
    await page.context().close()
  },
)
