/**
 * What the bundle has instead of the index of undici, which loads `fetch`, WebSockets, caches and mocks, too: the pool, its calls,
 * its clients and what connects them alone, put together as the index does it. Another import from undici is an error of the build.
 */
import api from 'undici/lib/api/index.js'
import Dispatcher from 'undici/lib/dispatcher/dispatcher.js'

Object.assign(Dispatcher.prototype, api)

export { default as buildConnector } from 'undici/lib/core/connect.js'
export { default as Client } from 'undici/lib/dispatcher/client.js'
export { default as Pool } from 'undici/lib/dispatcher/pool.js'
