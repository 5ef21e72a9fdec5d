import { join } from 'node:path'
import { configDefaults, defineConfig } from 'vitest/config'
import { filesThatReach, STARTS_PROCESSES } from './test/support/files-that-reach.ts'

// Tests start hundreds of processes of the sidecar. Most of what the start of one takes is the compiling of the same files.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, '.tmp/compile-cache')

const tests = '{test,examples}/**/*.test.ts'

/** They start servers, sidecars, compilers, workers, and wait for them. */
const withProcesses = filesThatReach(import.meta.dirname, tests, STARTS_PROCESSES)

/** Whole systems under load, many processes each, and browsers: two of them fill both cores, and nothing else is beside them. */
const load = [
  'test/system/**/*.test.ts',
  'test/faults/**/*.test.ts',
  'test/cli/demo.test.ts',
  ...filesThatReach(import.meta.dirname, tests, ['playwright-core']),
]

/**
 * What `npm test` leaves to `npm test -- --all`, by the name of the file. A campaign, or a search, of which a short slice stands
 * in a `*.test.ts` beside it: what a change breaks shows in the slice, what it breaks in one of a thousand cases shows here.
 */
const long = ['{test,examples}/**/*.long.test.ts']

export default defineConfig({
  test: {
    // Far above what any test takes by itself: it ends what hangs. On shared machines a test that computes for half a second has
    // stood still for more than a minute.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    // What is waited for may take as long: vitest gives up after a second by itself.
    expect: { poll: { timeout: 30_000 } },
    globalSetup: 'test/support/bundled-sidecar.ts',
    setupFiles: ['test/support/property-seed.ts', 'test/support/ended-processes.ts'],
    projects: [
      {
        extends: true,
        test: {
          name: 'specifications',
          include: [tests],
          exclude: [...configDefaults.exclude, ...withProcesses, ...load, ...long],
          // They compute, one core each, and wait a little.
          maxWorkers: 3,
          // A worker takes one file after the other, and loads each module once: a third of the processor time less. So a test
          // must leave nothing behind in its process either: no changed environment, no listener, no promise that fails later.
          isolate: false,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'processes',
          include: withProcesses,
          exclude: [...configDefaults.exclude, ...load, ...long],
          // Each has two thirds of a core to do, with its processes: a fourth would only make the others late.
          maxWorkers: 3,
          isolate: false,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'load',
          include: load,
          exclude: [...configDefaults.exclude, ...long],
          maxWorkers: 2,
          isolate: false,
          sequence: { groupOrder: 2 },
        },
      },
      {
        extends: true,
        test: {
          name: 'long',
          include: long,
          // Searches take a core each, whole systems under load less than one: one alone leaves a core idle for much of its time.
          maxWorkers: 2,
          sequence: { groupOrder: 3 },
        },
      },
      {
        extends: true,
        test: {
          // Needs what no machine can be asked to have, the jars of Kafka (docs/guide/saga.md): only where they are named.
          name: 'by hand',
          include: process.env.FENCEPOST_KAFKA_JARS === undefined ? [] : ['test/**/*.by-hand.ts'],
          maxWorkers: 1,
          sequence: { groupOrder: 4 },
        },
      },
      {
        extends: true,
        test: {
          // scripts/test.ts sets it where the machine has what a cluster of Kubernetes takes. A sidecar refuses to start with a
          // FENCEPOST_ variable that is no setting of its.
          name: 'cluster',
          include: process.env.TESTED_CLUSTER === undefined ? [] : ['test/**/*.in-cluster.ts'],
          maxWorkers: 1,
          sequence: { groupOrder: 5 },
        },
      },
    ],
  },
})
