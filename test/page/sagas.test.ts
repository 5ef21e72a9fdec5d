/** The page of `fencepost-saga serve` in a real browser: a parked saga and a message that was given up, decided by hand; and everybody can use it. */
import { readFileSync } from 'node:fs'
import type { Page } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'
import { rulings } from '../../packages/saga/src/operations/page.ts'
import { style } from '../../packages/saga/src/operations/style.ts'
import { startChromium, type TestBrowser } from '../support/chromium.ts'
import { stackOfTests } from '../support/during-tests.ts'
import { OPERATE_TOKEN, VIEW_TOKEN } from '../support/operator-caller.ts'
import { axeOf, phone } from '../support/operator-page.ts'
import { HOSTILE } from '../support/operator-scene.ts'
import { startPostgres } from '../support/postgres-server.ts'
import { type TestKit, testKit } from '../support/saga-kit.ts'
import { type SagaServer, startSagaServer } from '../support/saga-server.ts'
import { givenUpMessage, parkedSaga } from '../support/stuck-sagas.ts'

const stack = stackOfTests()
let kit: TestKit
let server: SagaServer
let browser: TestBrowser
let page: Page
let complaints: readonly string[]

const as = (token: string) => ({ httpCredentials: { username: 'bob', password: token } })

beforeAll(async () => {
  const postgres = stack.use(await startPostgres())
  kit = await testKit(postgres)
  const runbooks = ['--runbook-url', 'https://wiki.example.com/fencepost']
  server = stack.use(await startSagaServer(postgres.url, kit.schemaName, runbooks))
  browser = stack.use(await startChromium())
  ;({ page, complaints } = await browser.open(as(OPERATE_TOKEN)))
})

test('a parked saga is let go on, a message that was given up is replayed, and both stand among the decisions', async () => {
  const { repair } = await parkedSaga(kit, 'order-1')
  await givenUpMessage(kit, 'order-2')
  await page.goto(`${server.origin}/`)
  const wrong = page.getByRole('region', { name: 'Wrong now' })
  expect(await wrong.innerText()).toMatch(/Parked sagas: 1\.[\s\S]*Messages that were given up: 1\./)
  expect(await wrong.getByRole('link').first().getAttribute('href')).toBe(
    'https://wiki.example.com/fencepost#fencepostsagaparked',
  )
  const messages = page.getByRole('region', { name: 'Messages that were given up' })
  await messages.getByText('OrderPaid of order order-2').waitFor()
  await messages.getByText(/^Decide about/).click()
  await messages.getByLabel('Reason').first().fill('ticket 6: the broker is back')
  await messages.getByRole('button', { name: 'Preview: Replay it' }).click()
  await page.getByText('sent on their way again').waitFor()
  await page.getByRole('button', { name: 'Replay it' }).click()
  await page.getByText('Replay it: done.').waitFor()

  await page.getByRole('link', { name: 'Sagas' }).click()
  await page
    .getByRole('region', { name: 'Messages that were given up' })
    .getByText('There is none.')
    .waitFor()
  await page.getByRole('link', { name: 'order-1' }).click()
  await page.getByRole('heading', { name: /order: parked/ }).waitFor()
  await page.getByLabel('Reason').first().fill('ticket 5: the provider is up')
  await page.getByRole('button', { name: 'Preview: Let it go on' }).click()
  await page.getByRole('button', { name: 'Let it go on' }).click()
  await page.getByText('Let it go on: done.').waitFor()
  await page.getByRole('link', { name: 'Back to the saga' }).click()
  await page.getByRole('heading', { name: /order: running/ }).waitFor()
  await repair()
  await page.reload()
  await page.getByRole('heading', { name: /order: completed/ }).waitFor()

  await page.getByRole('link', { name: 'Sagas' }).click()
  const decided = await page.getByRole('region', { name: 'Decisions' }).getByRole('listitem').allInnerTexts()
  expect(decided.map((one) => one.replaceAll(/\s+/g, ' ').replace(/^.* UTC /, ''))).toEqual([
    'bob: retry order-1 “ticket 5: the provider is up”',
    expect.stringMatching(/^bob: replay \d+ “ticket 6: the broker is back”$/),
  ])
})

test('what others wrote is text; a saga is found by its id, and one that is unknown is said to be', async () => {
  await parkedSaga(kit, HOSTILE, { note: HOSTILE })
  await givenUpMessage(kit, HOSTILE, { note: HOSTILE })
  await page.goto(`${server.origin}/`)
  await page.getByLabel('Id of a saga').fill(HOSTILE)
  await page.getByRole('button', { name: 'Show' }).first().click()
  await page.getByText('What it was given').waitFor()
  expect(await page.locator('main img').count()).toBe(0)
  expect(await page.evaluate('window.attacked')).toBeUndefined()
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('\\u{202e}')
  await page.goto(`${server.origin}/sagas/nobody`)
  await page.getByRole('alert').getByText('There is no saga with this id').waitFor()
  // The answer 404 is what the browser complains of.
  expect(complaints.filter((one) => !one.includes('404'))).toEqual([])
})

test('the role view sees no form, and a page of another site decides nothing', async () => {
  const { page: tab } = await browser.open(as(VIEW_TOKEN))
  await tab.goto(`${server.origin}/sagas/${encodeURIComponent(HOSTILE)}`)
  await tab.getByRole('heading', { name: /order: parked/ }).waitFor()
  expect(await tab.locator('form').count()).toBe(0)
  const { page: foreign } = await browser.open(as(OPERATE_TOKEN))
  await foreign.goto(`${server.origin}/`)
  const elsewhere = server.origin.replace('127.0.0.1', 'localhost')
  await foreign.route(`${elsewhere}/attack`, (route) =>
    route.fulfill({
      contentType: 'text/html',
      body: `<form method="post" action="${server.origin}/decide"><input name="act" value="compensate"><input name="subject" value="${encodeURIComponent('order-1')}"><input name="reason" value="because"><input name="confirmed" value="yes"><button>Win</button></form>`,
    }),
  )
  await foreign.goto(`${elsewhere}/attack`)
  await foreign.getByRole('button', { name: 'Win' }).click()
  await foreign.getByRole('alert').getByText('A page of another site may not decide').waitFor()
})

test.each(['light', 'dark'] as const)(
  'on a phone in %s nothing keeps people from using it',
  async (scheme) => {
    const { page: tab } = await browser.open({ ...phone(scheme), ...as(OPERATE_TOKEN) })
    for (const path of ['/', `/sagas/${encodeURIComponent(HOSTILE)}`, '/sagas/nobody']) {
      await tab.goto(server.origin + path)
      expect([path, await axeOf(tab)]).toEqual([path, { serious: [], rulesRun: true, width: 400 }])
    }
    await tab.context().close()
  },
)

test('its colours are those of the page of the sidecar', () => {
  const colours = (text: string) => text.match(/--[\w-]+: #[0-9a-f]{6}/g)
  const sidecar = readFileSync(new URL('../../src/page/app.css', import.meta.url), 'utf8')
  expect(colours(style)).toEqual(colours(sidecar))
})

// Bug: the page offered neither for a saga that messages drive, unless it was parked or running: a running one with a dead step "goes on by
// itself", and one whose steps here are done could be turned back by the command line alone.
test.each([
  ['runner', 'parked', 0, true, true],
  ['runner', 'running', 0, false, true],
  ['runner', 'compensating', 0, false, false],
  ['runner', 'completed', 0, false, false],
  ['messages', 'parked', 0, true, true],
  ['messages', 'running', 1, true, true],
  ['messages', 'running', 0, false, true],
  ['messages', 'completed', 0, false, true],
  ['messages', 'compensating', 1, true, true],
  ['messages', 'compensated', 0, false, false],
] as const)('driven by %s, %s, with %i dead letters', (drivenBy, status, dead, canRetry, canCompensate) => {
  const { retry, compensate } = rulings({ drivenBy, status, deadLetters: Array(dead).fill(1) })
  expect([retry === undefined, compensate === undefined]).toEqual([canRetry, canCompensate])
})
