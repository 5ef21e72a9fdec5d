/** The searches of the specification that `spec.test.ts` leaves out, but for those that take many minutes (`long`). */

import { testsOfSearches } from './searched.ts'
import { SEARCHES } from './searches.ts'

testsOfSearches(SEARCHES.filter(({ slice, long }) => slice !== true && long !== true))
