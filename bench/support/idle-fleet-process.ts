/** A fleet of idle sidecars as a process of its own: `node idle-fleet-process.ts COUNT NODES`; prints a line when all of them run. */
import { startIdleFleet } from './idle-fleet.ts'

const [count = '1', nodes = ''] = process.argv.slice(2)
await using _fleet = await startIdleFleet(Number(count), nodes)
console.log(`${count} idle sidecars run`)
await new Promise((resolve) => process.once('SIGTERM', resolve))
