/** The specification under spec/, searched by Spin: nothing breaks it, and without one of its rules something does. */

import { testsOfSearches } from './searched.ts'
import { SEARCHES } from './searches.ts'

testsOfSearches(SEARCHES.filter(({ slice }) => slice === true))
