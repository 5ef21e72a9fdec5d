/** Races of several contents for one key until one claimant wins; `races.long.test.ts` runs ten times as many. */
import { testsOfRaces } from './raced.ts'

testsOfRaces(500)
