/** The lines of the documents, page by page, run by a reader who has what the page presupposes. */
import type { PageLine } from '../../support/page-lines.ts'
import type { Scenario } from '../scenario.ts'
import { INSTALLATION_PAGES } from './installation-pages.ts'
import { NODES_PAGES } from './nodes-pages.ts'
import { scenarioOf } from './page-scenario.ts'
import { TLS_PAGE } from './tls-page.ts'

const PAGES = [...INSTALLATION_PAGES, ...NODES_PAGES, TLS_PAGE]

/** What they run, for the test that no line is left out. */
export const LINES_OF_PAGES: readonly PageLine[] = PAGES.flatMap(({ lines }) => lines)

export const PAGE_SCENARIOS: readonly Scenario[] = PAGES.map(scenarioOf)
