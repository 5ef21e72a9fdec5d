/** A real browser: the second of two clicks is the same order, and what is different is another one. */
import { describe, expect, test } from 'vitest'
import { type Respond, startApplication } from '../support/application.ts'
import { startChromium } from '../support/chromium.ts'
import { duringTests } from '../support/during-tests.ts'
import { startProxy } from '../support/proxy.ts'
import { BUILTIN_ROUTES, json } from './both-ways.ts'

/** As Datadog RUM does: its cookie of the session is written anew with every action, and each request is traced. */
const PAGE = `<!doctype html><link rel="icon" href="data:,"><title>shop</title>
<input id="item" value="7"><button id="buy">Buy</button><ol id="orders"></ol>
<script>
  let actions = 0
  document.cookie = 'customer=ann; path=/'
  document.querySelector('#buy').addEventListener('click', async () => {
    actions += 1
    document.cookie = '_dd_s=rum=2&id=5e6f&created=1&expire=' + (Date.now() + 900000 + actions) + '; path=/'
    const answer = await fetch('/orders', {
      method: 'POST',
      body: JSON.stringify({ item: document.querySelector('#item').value }),
      headers: {
        'content-type': 'application/json',
        'x-datadog-trace-id': String(Math.random()).slice(2),
        'x-datadog-parent-id': String(Math.random()).slice(2),
        traceparent: '00-' + crypto.randomUUID().replaceAll('-', '') + '-00f067aa0ba902b7-01',
      },
    })
    const { order } = answer.status === 409 ? { order: 'still at work' } : await answer.json()
    document.querySelector('#orders').append(Object.assign(document.createElement('li'), { textContent: order }))
  })
</script>`

const shop = (): Respond => {
  let orders = 0
  return ({ method }, response) => {
    if (method === 'GET') response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE)
    else {
      orders += 1
      json(response, 201, { order: `order ${orders}` })
    }
  }
}

describe('Chromium', () => {
  const browser = duringTests(() => startChromium())

  test.each<[way: string, ordered: number]>([
    ['directly', 4],
    ['through the sidecar', 2],
  ])('a double click, one more, and one for another item, %s: %i orders', async (way, ordered) => {
    await using application = await startApplication(shop())
    await using proxy =
      way === 'directly' ? undefined : await startProxy(application.origin, { routes: BUILTIN_ROUTES })
    const { page } = await browser.open()
    await page.goto(proxy?.origin ?? application.origin)
    const shown = page.locator('#orders li')
    await page.locator('#buy').dblclick()
    await shown.nth(1).waitFor()
    await page.locator('#buy').click()
    await shown.nth(2).waitFor()
    await page.locator('#item').fill('8')
    await page.locator('#buy').click()
    await shown.nth(3).waitFor()
    const [first, second, third, fourth] = await shown.allTextContents()
    const posted = application.seen.filter(({ method }) => method === 'POST')
    expect(posted).toHaveLength(ordered)
    expect(fourth).toBe(`order ${ordered}`)
    expect(third).toBe(ordered === 2 ? 'order 1' : 'order 3')
    // The first may be at work still when the second click comes: the page is told so.
    expect(['order 1', ordered === 2 ? 'still at work' : 'order 2']).toEqual(
      expect.arrayContaining([first, second]),
    )
    await page.context().close()
  })
})
