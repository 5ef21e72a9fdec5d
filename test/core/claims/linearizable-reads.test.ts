/** Reads against acknowledged calls, exhaustively, on three nodes; `linearizable-reads.long.test.ts` has five. */
import { testsOfReads } from './reads-of-histories.ts'

testsOfReads(3)
