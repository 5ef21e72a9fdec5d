/** The specification under spec/, searched by Spin: it holds, and without one of its rules it is broken. */

import { testsOfSearches } from './searched.ts'
import { SEARCHES } from './searches.ts'

testsOfSearches(SEARCHES.filter(({ slice }) => slice === true))
