// The promise of the first page: a storm of duplicates is executed once. Real nodes, real processes.
import { testsOfStorms } from './storms.ts'

testsOfStorms(10_000, 500)
