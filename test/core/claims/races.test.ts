/** Races of several contents for one key, followed until somebody has won; `races.long.test.ts` follows ten times as many. */
import { testsOfRaces } from './raced.ts'

testsOfRaces(500)
