/** After each file of tests: what it started is ended, also where a test of it timed out. */
import { afterAll } from 'vitest'
import { endLeftProcesses } from './processes.ts'

afterAll(() => endLeftProcesses())
