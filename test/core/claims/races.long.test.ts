/** Races of several contents for one key until one claimant wins. */
import { testsOfRaces } from './raced.ts'

testsOfRaces(5_000)
