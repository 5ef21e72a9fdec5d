/**
 * Before each file of tests: properties draw the same values with every change, so that a change fails by what it changes.
 * FENCEPOST_TEST_SEED takes others; fast-check prints the seed of a property that fails.
 */
import fc from 'fast-check'
import { givenSeed } from './seeded-random.ts'

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: givenSeed() })
