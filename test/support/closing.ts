/** For `await using`: what is closed, and does not say so itself. */
export function closing<T extends { close(): unknown }>(one: T): T & AsyncDisposable {
  return Object.assign(one, {
    [Symbol.asyncDispose]: async () => {
      await one.close()
    },
  })
}
