/** Reads against acknowledged calls, exhaustively, on five nodes. */
import { testsOfReads } from './reads-of-histories.ts'

testsOfReads(5)
