/**
 * A consumer in a process of its own that takes one message and never finishes it, to be killed.
 * Usage: node hanging-consumer.ts <adapter module> <factory> <options as JSON>
 */
import type { MessageSubscriber } from '@fencepost/saga'

const [module, factory, options] = process.argv.slice(2)
const adapter = await import(module!)
const subscriber: MessageSubscriber = adapter[factory!](JSON.parse(options!))
await subscriber.subscribe(
  (delivery) => {
    console.log(`took ${delivery.body}`)
    return new Promise(() => {})
  },
  { concurrency: 1, onError: (error) => console.error(error) },
)
