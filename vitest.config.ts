import { configDefaults, defineConfig } from 'vitest/config'

/** Whole systems under load: they need both cores for themselves, or their deadlines measure the other tests. */
const load = ['test/system/**/*.test.ts', 'test/faults/**/*.test.ts', 'test/cli/demo.test.ts']

export default defineConfig({
  test: {
    // Far above what any test takes by itself: a busy machine starts a process in seconds.
    testTimeout: 60_000,
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'specifications',
          include: ['test/**/*.test.ts', 'examples/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...load],
          // Two cores: one worker for the tests, one for the servers that they start.
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'load',
          include: load,
          maxWorkers: 1,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          // Needs what no machine can be asked to have, the jars of Kafka (docs/guide/saga.md): only where they are named.
          name: 'by hand',
          include: process.env.FENCEPOST_KAFKA_JARS === undefined ? [] : ['test/**/*.by-hand.ts'],
          maxWorkers: 1,
          sequence: { groupOrder: 2 },
        },
      },
    ],
  },
})
