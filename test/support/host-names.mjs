/**
 * Gives this process names of its own, as entries in its hosts file would: `dual.test` leads to the addresses that the JSON of
 * TEST_HOST_NAMES lists for it. Imported, or before a program (`NODE_OPTIONS=--import=…`).
 */
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { isIPv6 } from 'node:net'

const lookup = dns.lookup
dns.lookup = Object.assign((host, options, answered) => {
  const names = JSON.parse(process.env.TEST_HOST_NAMES ?? '{}')
  const addresses = names[host]?.map((address) => ({ address, family: isIPv6(address) ? 6 : 4 }))
  if (addresses === undefined || options?.all !== true) return lookup(host, options, answered)
  queueMicrotask(() => answered(null, addresses))
}, lookup)
syncBuiltinESMExports()
