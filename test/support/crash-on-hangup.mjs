/**
 * Loaded into a sidecar before its own program: on SIGHUP the process meets an uncaught fault with everything on it
 * that errors are known to carry. The secrets come from a file, because the test searches the environment too.
 */
import { readFileSync } from 'node:fs'

process.once('SIGHUP', () => {
  const secret = readFileSync(process.env.CRASH_SECRETS_FILE, 'utf8')
  // An unhandled rejection as of a database client: its command is a property of the error.
  const reply = Object.assign(new Error(`ERR ${secret}\n    at ${secret} (file:///a.js:1:1)`), {
    command: { name: 'auth', args: [secret] },
    code: `E ${secret}`,
  })
  try {
    JSON.parse(secret)
  } catch (cause) {
    void Promise.reject(
      new TypeError(secret, { cause: Object.assign(cause, { cause: reply, input: secret }) }),
    )
  }
})
