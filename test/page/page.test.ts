/**
 * The operator's page in a real browser, on a real sidecar with five nodes: one stuck payment from its key to a decision and the
 * client's retry, what the page must never do, and that everybody can use it.
 */
import { createServer } from 'node:http'
import type { Page } from 'playwright-core'
import { beforeAll, describe, expect, test } from 'vitest'
import { startChromium, type TestBrowser } from '../support/chromium.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { listening } from '../support/listening.ts'
import { writeDeadLetters } from '../support/many-dead-letters.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../support/operator-caller.ts'
import { accessibilityOf, findPayment, phone, preview, signIn } from '../support/operator-page.ts'
import { HOSTILE, type OperatorScene, openOperatorScene } from '../support/operator-scene.ts'

const stack = stackOfTests()
let scene: OperatorScene
let browser: TestBrowser
let origin: string
/** Bob's tab; what the browser complained of in it. */
let page: Page
let complaints: readonly string[]

beforeAll(async () => {
  const settings = { FENCEPOST_RUNBOOK_URL: 'https://wiki.example.com/fencepost' }
  const [opened, started] = await Promise.all([openOperatorScene({}, settings), startChromium()])
  scene = stack.use(opened)
  browser = stack.use(started)
  origin = scene.sidecar.operator
  ;({ page, complaints } = await browser.open())
  await signIn(page, origin, OPERATE_TOKEN)
})

const verdict = () => page.getByRole('heading', { name: /^The quorum says/ })
const seats = () => page.getByRole('region', { name: 'On every node' }).getByRole('listitem')

describe('one stuck payment', () => {
  test('it is found by its key, the node that differs is seen, and ended: the retry is executed as attempt 2', async () => {
    const { record, comeBack } = await scene.stuck('held-end')
    await scene.dropOnNode(4, record)
    await findPayment(page, 'held-end')
    expect(await verdict().innerText()).toContain('live')
    expect(await seats().count()).toBe(5)
    const { fingerprint } = await scene.operator.show(record)
    expect(
      await seats()
        .filter({ hasText: fingerprint.slice(0, 16) })
        .count(),
    ).toBe(4)
    expect(await seats().filter({ hasText: 'differs' }).allInnerTexts()).toEqual([
      expect.stringMatching(/absent/),
    ])
    expect(await page.getByRole('region', { name: /^The quorum says/ }).innerText()).toContain(
      'payments-7d9f',
    )

    const told = await preview(page, /will not end/, 'ticket 1: the worker is gone')
    expect(told).toContain('Its holder is fenced')
    expect((await scene.operator.show(record)).state).toBe('live')
    const decide = page.getByRole('button', { name: 'End the claim' })
    // The promise at stake has to be said out by a tick of its own.
    expect(await decide.isDisabled()).toBe(true)
    await page.getByLabel(/even though a live lease holds it/).check()
    await decide.click()
    await page.getByText('End the claim: done.').waitFor()
    await expect.poll(() => verdict().innerText()).toContain('expired')

    const retry = await scene.pay('held-end')
    expect([retry.status, scene.attemptsOf('held-end')]).toEqual([201, ['1', '2']])
    await page.getByRole('button', { name: 'Look again' }).click()
    await expect.poll(() => verdict().innerText()).toContain('completed')
    expect(await page.getByRole('region', { name: 'The recorded outcome' }).innerText()).toContain(
      await retry.text(),
    )
    await comeBack()
  })

  test('it is completed by hand, and the retry of the client is answered with that', async () => {
    const { comeBack } = await scene.stuck('held-complete')
    await findPayment(page, 'held-complete')
    await page.getByRole('button', { name: 'It was executed' }).click()
    await page.getByLabel('Status').fill('202')
    await page.getByLabel('Body').fill('{"payment":"p-77"}')
    await page.getByLabel('Reason').fill('ticket 2: the provider has it')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByLabel(/even though a live lease/).check()
    await page.getByRole('button', { name: 'Complete it by hand' }).click()
    await page.getByText('Complete it by hand: done.').waitFor()
    const retry = await scene.pay('held-complete')
    expect([retry.status, retry.headers.get('idempotency-status'), await retry.text()]).toEqual([
      202,
      'replayed',
      '{"payment":"p-77"}',
    ])
    expect(scene.attemptsOf('held-complete')).toEqual(['1'])
    await comeBack()
  })

  test('it is forgotten, and the next request is a first attempt', async () => {
    const { comeBack } = await scene.stuck('held-forget')
    await findPayment(page, 'held-forget')
    await preview(page, 'It was not executed', 'ticket 3: nothing was charged')
    await page.getByLabel(/even though a live lease/).check()
    await page.getByRole('button', { name: 'Forget it' }).click()
    await page.getByText('Forget it: done.').waitFor()
    expect((await scene.pay('held-forget')).headers.get('idempotency-status')).toBe('created')
    expect(scene.attemptsOf('held-forget')).toEqual(['1', '1'])
    await comeBack()
  })

  test('a changed form asks for a new preview, and a record that moved on stays as it is', async () => {
    const { record, comeBack } = await scene.stuck('held-moved')
    await findPayment(page, 'held-moved')
    await preview(page, /will not end/, 'ticket 4: first')
    await page.getByLabel('Reason').fill('ticket 4: another reason')
    expect(await page.getByRole('button', { name: 'End the claim' }).count()).toBe(0)
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByLabel(/even though a live lease/).check()
    await scene.operator.decide('end', record, { even_though: 'live' })
    await scene.pay('held-moved')
    await page.getByRole('button', { name: 'End the claim' }).click()
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('The record has moved on')
    await comeBack()
  })

  // Bug: the page said that the sidecar did not answer, about a decision that had been made.
  test('a decision whose answer is lost is not called undecided', async () => {
    const { comeBack } = await scene.stuck('held-lost')
    const { page: tab } = await browser.open()
    await signIn(tab, origin, OPERATE_TOKEN)
    await findPayment(tab, 'held-lost')
    await preview(tab, /will not end/, 'ticket 4: the answer is lost')
    await tab.getByLabel(/even though a live lease/).check()
    await tab.route('**/end', async (route) => {
      await route.fetch()
      await route.abort()
    })
    await tab.getByRole('button', { name: 'End the claim' }).click()
    const told = await tab.getByRole('alert').innerText()
    expect(told).toContain(
      'It is not known whether it was decided: look at it again before you decide once more.',
    )
    await tab.getByText('it is expired, attempt 1 now').waitFor()
    await tab.context().close()
    await comeBack()
  })

  test('all decisions are in the audit log, with the name, the reason and a link to the record', async () => {
    await page.getByRole('link', { name: 'Audit' }).click()
    for (const [reason, act] of [
      ['ticket 1: the worker is gone', 'end'],
      ['ticket 2: the provider has it', 'complete'],
      ['ticket 3: nothing was charged', 'forget'],
    ] as const) {
      const entries = page.getByRole('listitem').filter({ hasText: reason })
      await expect.poll(() => entries.count()).toBe(2)
      // Newest first.
      const told = await entries.allInnerTexts()
      expect(told).toEqual(['done', 'begun'].map((step) => expect.stringContaining(`bob: ${act} (${step})`)))
    }
    await page.getByLabel('Only entries with').fill('ticket 3')
    await expect.poll(() => page.getByRole('listitem').count()).toBe(2)
    await page
      .getByRole('link', { name: /^[0-9a-f]{16}$/ })
      .first()
      .click()
    await verdict().waitFor()
  })
})

describe('a record that is open', () => {
  const hint = () => page.getByText(/^As it was at/)
  const openRecord = async (record: string) => {
    await page.evaluate(`location.hash = '#/record/' + ${JSON.stringify(encodeURIComponent(record))}`)
    await page.getByText(record.slice(-64, -48), { exact: true }).waitFor()
    await expect.poll(() => hint().innerText()).toMatch(/, live\.$/)
  }
  const streamOf = (record: string) => (request: { url(): string }) =>
    request.url().endsWith(`/records/${encodeURIComponent(record)}/events`)

  test('follows its claim and what another operator decides: the focus stays, and a screen reader hears the change once', async () => {
    const { record, comeBack } = await scene.stuck('held-live')
    await openRecord(record)
    await page.evaluate(`
      window.announced = []
      new MutationObserver((changes) => {
        for (const { target } of changes) {
          const region = (target.closest ? target : target.parentElement).closest('[role=status], [role=alert], [aria-live]')
          if (region !== null && region.isConnected) window.announced.push(region.textContent)
        }
      }).observe(document.getElementById('main'), { subtree: true, childList: true, characterData: true })
    `)
    const look = page.getByRole('button', { name: 'Look again' })
    await look.focus()
    // Two looks that change nothing but the lease and the time.
    const times = new Set<string>()
    await expect
      .poll(async () => times.add(await hint().locator('time').innerText()).size, { timeout: 20_000 })
      .toBeGreaterThan(2)
    expect(await page.evaluate('window.announced')).toEqual([])
    await scene.operator.decide('end', record, { even_though: 'live', reason: 'ticket 7: elsewhere' })
    await expect.poll(() => verdict().innerText()).toContain('expired')
    const history = page.getByRole('region', { name: 'History' })
    await expect
      .poll(() => history.getByRole('listitem').filter({ hasText: 'ticket 7' }).count(), { timeout: 10_000 })
      .toBe(2)
    const lookedAt = () => hint().locator('time').getAttribute('datetime')
    const before = await lookedAt()
    await look.click()
    await expect.poll(lookedAt).not.toBe(before)
    expect(await page.evaluate('window.announced')).toEqual(['The record is expired, attempt 1 now.'])
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Look again')
    await comeBack()
  })

  test('stands still while a decision is open: form and preview stay, the change is said, and the decision has the token that was seen', async () => {
    const { record, comeBack } = await scene.stuck('held-held')
    await openRecord(record)
    const { fencing_token: seen } = await scene.operator.show(record)
    await preview(page, 'It was not executed', 'ticket 8: nothing was charged')
    await page.getByLabel(/even though a live lease/).check()
    await page.getByLabel('Reason').focus()
    await scene.operator.decide('end', record, { even_though: 'live' })
    await page.getByText('it is expired, attempt 1 now').waitFor()
    expect(await verdict().innerText()).toContain('live')
    expect(await page.getByLabel('Reason').inputValue()).toBe('ticket 8: nothing was charged')
    expect(await page.getByLabel(/even though a live lease/).isChecked()).toBe(true)
    expect(await page.evaluate('document.activeElement.name')).toBe('reason')
    const sent = page.waitForRequest((request) => request.url().endsWith('/forget'))
    await page.getByRole('button', { name: 'Forget it' }).click()
    expect((await sent).postDataJSON()).toMatchObject({ fencing_token: seen })
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('The record has moved on')
    // Neither is there a preview of what nobody looks at.
    await page.getByRole('button', { name: 'Preview' }).click()
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('The record has moved on')
    await page.getByRole('button', { name: 'Show it as it is' }).click()
    await expect.poll(() => verdict().innerText()).toContain('expired')
    expect(await page.getByLabel('Reason').inputValue()).toBe('ticket 8: nothing was charged')
    await page.getByRole('button', { name: 'Preview' }).click()
    await page.getByRole('button', { name: 'Forget it' }).click()
    await page.getByText('Forget it: done.').waitFor()
    await expect.poll(() => verdict().innerText()).toContain('released')
    await expect.poll(() => hint().innerText()).toMatch(/, live\.$/)
    await comeBack()
  })

  test('is watched while its view is open and its tab is seen, and by one stream', async () => {
    const record = await scene.recordOf('held-live')
    const opened: string[] = []
    const count = (request: { url(): string }) => streamOf(record)(request) && opened.push(request.url())
    page.on('request', count)
    await page.getByRole('link', { name: 'Find' }).click()
    await openRecord(record)
    const hide = (hidden: boolean) =>
      page.evaluate(`
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${hidden} })
        document.dispatchEvent(new Event('visibilitychange'))
      `)
    const over = () => page.waitForEvent('requestfailed', streamOf(record))
    await Promise.all([over(), hide(true)])
    await Promise.all([page.waitForRequest(streamOf(record)), hide(false)])
    await Promise.all([over(), page.getByRole('link', { name: 'Find' }).click()])
    expect(opened.length).toBe(2)
    page.off('request', count)
  })
})

test('the lists lead to a record, for who has nothing but "it hangs"', async () => {
  const { record, comeBack } = await scene.stuck('held-listed')
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByRole('button', { name: 'Live claims, oldest first' }).click()
  await page.getByRole('link', { name: record.slice(-64, -48) }).click()
  await verdict().waitFor()
  await comeBack()
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByLabel('What do you have?').selectOption('reference')
  await page.getByLabel('Reference').fill(record.slice(-64, -48))
  await page.getByRole('button', { name: 'Find', exact: true }).click()
  await verdict().waitFor()
})

test('of more live claims than one page has, the oldest comes first, and the list has an end', async () => {
  const oldest = await scene.stuck('held-oldest')
  await expect
    .poll(async () => (await scene.operator.show(oldest.record)).claimed_for_ms)
    .toBeGreaterThan(2_000)
  const next = await scene.stuck('held-next')
  await scene.copyRecord(next.record, 230)
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByRole('button', { name: 'Live claims, oldest first' }).click()
  const list = page.getByRole('table', { name: 'The oldest 200 of more, live, oldest first' })
  await list.waitFor()
  const links = await list.getByRole('link').allInnerTexts()
  expect([links.length, links[0]]).toEqual([200, oldest.record.slice(-64, -48)])
  await Promise.all([oldest.comeBack(), next.comeBack()])
})

test('a refusal is found without a reference: among what the sidecar just answered', async () => {
  const { record, comeBack } = await scene.stuck('held-refused')
  expect((await scene.pay('held-refused')).status).toBe(409)
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByRole('button', { name: 'What was just answered' }).click()
  const refused = page.getByRole('row').filter({ hasText: 'duplicate in flight' }).first()
  expect(await refused.innerText()).toMatch(/409/)
  await refused.getByRole('link', { name: record.slice(-64, -48) }).click()
  await verdict().waitFor()
  await comeBack()
})

test('questions beyond the first page: older ones, and back to the newest', async () => {
  await writeDeadLetters(scene.servers.urls, 203)
  // The payments above have left some, too.
  const { entries: all } = (await scene.operator.call('/dead-letters?limit=1000')).body
  await page.getByRole('link', { name: 'Find' }).click()
  await page.getByRole('button', { name: 'Questions that wait' }).click()
  const questions = page.getByRole('region', { name: /^Questions that wait/ }).getByRole('listitem')
  const isHere = (name: string) => page.getByRole('button', { name, exact: true }).count()
  await expect.poll(() => questions.count()).toBe(200)
  expect([await isHere('Older'), await isHere('Newest')]).toEqual([1, 0])
  await page.getByRole('button', { name: 'Older', exact: true }).click()
  await expect.poll(() => questions.count()).toBe(all.length - 200)
  expect([await isHere('Older'), await isHere('Newest')]).toEqual([0, 1])
  await page.getByRole('button', { name: 'Newest', exact: true }).click()
  await expect.poll(() => questions.count()).toBe(200)
})

describe('what is stored is shown, and never obeyed', () => {
  test('an answer of HTML and scripts is text, its control characters written out', async () => {
    await scene.pay('hostile')
    await findPayment(page, 'hostile')
    const shown = await page
      .getByRole('region', { name: 'The recorded outcome' })
      .locator('pre')
      .last()
      .innerText()
    expect(shown).toBe(HOSTILE.replace('\u202e', '\\u{202e}'))
    expect(await page.evaluate('window.attacked')).toBeUndefined()
  })

  test('who may only look sees that there is an answer, and none of it; and decides nothing', async () => {
    const ann = await browser.open()
    await signIn(ann.page, origin, VIEW_TOKEN)
    await findPayment(ann.page, 'hostile')
    const outcome = ann.page.getByRole('region', { name: 'The recorded outcome' })
    expect(await outcome.innerText()).toContain('Its content is shown to the role operate.')
    expect(await outcome.innerText()).not.toContain('script')
    await ann.page.getByRole('button', { name: 'It was not executed' }).click()
    expect(await ann.page.getByRole('button', { name: 'Preview' }).count()).toBe(0)
    await ann.page.context().close()
  })
})

describe('the token', () => {
  test('a wrong one is refused, and a right one is kept in memory alone', async () => {
    const { page: tab } = await browser.open()
    await tab.goto(origin)
    await tab.getByLabel('Your token').fill(`${OPERATE_TOKEN}0`)
    await tab.getByRole('button', { name: 'Sign in' }).click()
    await tab.getByRole('alert').waitFor()
    expect(await tab.getByRole('link', { name: 'Audit' }).count()).toBe(0)
    await signIn(tab, origin, OPERATE_TOKEN)
    const kept = await tab.evaluate(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href, document.documentElement.outerHTML])',
    )
    expect(kept).not.toContain(OPERATE_TOKEN)
    expect(await tab.context().cookies()).toEqual([])
    await tab.reload()
    expect(await tab.getByLabel('Your token').inputValue()).toBe('')
    await tab.context().close()
  })
})

describe('another site in the same browser', () => {
  test('can neither frame the page nor call the API', async () => {
    const key = 'held-csrf'
    const { record, comeBack } = await scene.stuck(key)
    const end = `${origin}/v1/operator/records/${encodeURIComponent(record)}/end`
    const body = '{"reason":"an attack","even_though":"live"}'
    await using evil = await siteWith(`<iframe src="${origin}/"></iframe>`)
    const { page: tab } = await browser.open()
    await tab.goto(evil.origin)
    const frame = tab.frames().find((one) => one !== tab.mainFrame())
    await expect.poll(() => frame?.url()).toBe('chrome-error://chromewebdata/')
    const attempts = await tab.evaluate(
      async ([url, text, token]) => {
        const answered = (init: RequestInit) =>
          fetch(url!, { method: 'POST', body: text!, ...init }).then(
            ({ type }) => type,
            () => 'refused',
          )
        return [
          await answered({ mode: 'no-cors', credentials: 'include' }),
          await answered({ headers: { 'content-type': 'application/json' }, credentials: 'include' }),
          // Even one that knows the token is refused by the browser, before the call is sent.
          await answered({
            headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
          }),
        ]
      },
      [end, body, OPERATE_TOKEN],
    )
    expect(attempts).toEqual(['opaque', 'refused', 'refused'])
    expect((await scene.operator.show(record)).state).toBe('live')
    await tab.context().close()
    await comeBack()
  })
})

describe('the overview', () => {
  test('shows what a node found slow beside the requests, by its name and time alone', async () => {
    await page.getByRole('link', { name: 'Overview' }).click()
    const region = page.getByRole('region', { name: 'Slow commands', exact: true })
    await region.getByRole('button', { name: 'Look again' }).waitFor()
    await scene.slowCommand(2, 'a-secret-key')
    await region.getByRole('button', { name: 'Look again' }).click()
    const rows = region.getByRole('row').filter({ hasText: scene.servers.names[2] ?? '' })
    await expect.poll(() => rows.allInnerTexts()).toContainEqual(expect.stringMatching(/:\d+\s+EVAL\s+\d/))
    expect(await region.innerText()).not.toContain('secret')
  })

  test('has five seats, follows a node that goes down, and names the runbook', async () => {
    await page.getByRole('link', { name: 'Overview' }).click()
    const region = page.getByRole('region', { name: 'Nodes' })
    await expect.poll(() => region.getByRole('listitem').filter({ hasText: 'voting' }).count()).toBe(5)
    expect(await region.innerText()).toMatch(/5 of 5 votes[\s\S]*3 are a majority[\s\S]*2 may be lost/)
    await expect
      .poll(() =>
        region
          .getByRole('listitem')
          .filter({ hasText: /Clock\s*[+−][\d.]+ m?s/ })
          .count(),
      )
      .toBe(5)
    await expect
      .poll(() =>
        region
          .getByRole('listitem')
          .filter({ hasText: /Memory\s*\d+ %/ })
          .count(),
      )
      .toBe(5)
    await scene.servers.kill(3)
    await expect
      .poll(() => region.innerText(), { timeout: 20_000 })
      .toMatch(/4 of 5 votes[\s\S]*1 may be lost/)
    const wrong = page.getByRole('region', { name: 'Wrong now' })
    await expect.poll(() => wrong.innerText()).toContain(`${scene.servers.names[3]} is down`)
    const links = await wrong
      .getByRole('link')
      .evaluateAll((all) => all.map((one) => one.getAttribute('href')))
    // Bug: it was fencepost.dev, wherever the runbooks were published.
    expect(links).toContain('https://wiki.example.com/fencepost#fencepostredisnodedown')
    await scene.servers.start(3)
    await expect.poll(() => region.innerText(), { timeout: 20_000 }).toMatch(/quarantined[\s\S]*left/)
  })
})

describe('everybody can use it', () => {
  // The other views, and in light: page.long.test.ts.
  test('on a phone and in the dark a record has no serious fault, and is no wider than the screen', async () => {
    const { page: tab } = await browser.open(phone('dark'))
    await signIn(tab, origin, OPERATE_TOKEN)
    const record = `#/record/${encodeURIComponent(await scene.recordOf('hostile'))}`
    expect(await accessibilityOf(tab, record)).toEqual({ serious: [], rulesRun: true, width: 400 })
    await tab.context().close()
  })

  test('without a mouse: sign in, find, and the focus is on the heading of the view that was opened', async () => {
    const { page: tab } = await browser.open()
    await tab.goto(origin)
    await tab.getByLabel('Your token').focus()
    await tab.keyboard.type(OPERATE_TOKEN)
    await tab.keyboard.press('Enter')
    await tab.getByRole('heading', { name: 'Find a record' }).waitFor()
    expect(await tab.evaluate('document.activeElement.textContent')).toBe('Find a record')
    for (let at = 0; at < 3; at += 1) await tab.keyboard.press('Tab')
    await tab.keyboard.type('/payments')
    await tab.keyboard.press('Tab')
    await tab.keyboard.type('hostile')
    await tab.keyboard.press('Enter')
    await tab.getByRole('heading', { name: /^Record/ }).waitFor()
    await expect.poll(() => tab.evaluate('document.activeElement.tagName')).toBe('H1')
    await tab.context().close()
  })
})

describe('without a quorum', () => {
  let tab: Page
  beforeAll(async () => {
    ;({ page: tab } = await browser.open())
    await signIn(tab, origin, OPERATE_TOKEN, '#/overview')
    const nodes = tab.getByRole('region', { name: 'Nodes' })
    await nodes.waitFor()
    await Promise.all([0, 1, 2].map((index) => scene.servers.kill(index)))
    await nodes.getByText('lost', { exact: true }).waitFor()
  })

  // Bug: the list was "There is none.", while many hung.
  test('a list says that it may lack records, and not that there is none', async () => {
    await tab.getByRole('link', { name: 'Find' }).click()
    await tab.getByRole('button', { name: 'Expired claims, oldest first' }).click()
    await tab.getByText('Too few nodes can be read: there may be records that are not listed.').waitFor()
    expect(await tab.getByText('There is none.').count()).toBe(0)
  })

  // Bug: "5 nodes differ from the majority. One or two are no reason to worry".
  test('a record on which there is no verdict says so, and no node that replies differs from it', async () => {
    await findPayment(tab, 'hostile')
    const region = tab.getByRole('region', { name: 'On every node' })
    expect(await region.innerText()).toContain(
      'No state is known that a majority shows, so there is none that a node could differ from.',
    )
    expect(await region.getByText('differs', { exact: true }).count()).toBe(0)
  })
})

test('the browser complained of nothing but refusals that were asked for', () => {
  // A decision on a record that moved on is answered 409, and each refusal is a line in the console.
  expect(complaints.filter((line) => !/status of 409/.test(line))).toEqual([])
})

/** Another site, on an origin of its own. */
async function siteWith(html: string) {
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(html)
  })
  const served = await listening(server)
  const { port } = served
  return {
    origin: `http://localhost:${port}`,
    [Symbol.asyncDispose]: served[Symbol.asyncDispose],
  }
}
