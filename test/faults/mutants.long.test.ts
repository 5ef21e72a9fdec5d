// The harness proves itself, all of it: each scene, and the broken builds that `mutants.test.ts` leaves out.
import { others, testsOfMutants } from './mutant-trials.ts'
import { TRIALS, type TrialName } from './trials.ts'

testsOfMutants(Object.keys(TRIALS) as TrialName[], others)
