/** Races of several contents for one key, followed until somebody has won. */
import { testsOfRaces } from './raced.ts'

testsOfRaces(5_000)
