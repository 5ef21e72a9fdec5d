/** The short version of `npm run campaign -- exhaustion`: the cases that `exhaustion.test.ts` leaves out. */
import { CASES } from '../exhaustion/cases.ts'
import { testsOfCases } from '../exhaustion/held-cases.ts'

testsOfCases(CASES.filter(({ name }) => name !== 'waiters'))
