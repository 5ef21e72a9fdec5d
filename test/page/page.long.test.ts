/** Every view of the operator's page on a phone, in light and dark: nothing keeps people from using it. A slice: page.test.ts. */
import { beforeAll, expect, test } from 'vitest'
import { startChromium } from '../support/chromium.ts'
import { duringTests } from '../support/during-tests.ts'
import { OPERATE_TOKEN } from '../support/operator-caller.ts'
import { accessibilityOf, phone, signIn } from '../support/operator-page.ts'
import { openOperatorScene } from '../support/operator-scene.ts'

const scene = duringTests(() => openOperatorScene())
const browser = duringTests(() => startChromium())
beforeAll(async () => {
  await scene.pay('hostile')
  await scene.operator.decide('forget', await scene.recordOf('hostile'), { even_though: 'completed' })
  await scene.pay('hostile')
})

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
