/** The short version of `npm run campaign -- exhaustion`, of which `exhaustion.long.test.ts` has the other cases. */
import { CASES } from '../exhaustion/cases.ts'
import { testsOfCases } from '../exhaustion/held-cases.ts'

testsOfCases(CASES.filter(({ name }) => name === 'waiters'))
