type Startable = AsyncDisposable & { start(): Promise<void> }

/** The server, once it is up; a failed start leaves no process and no folder behind. */
export async function started<S extends Startable>(server: S): Promise<S> {
  try {
    await server.start()
  } catch (error) {
    await server[Symbol.asyncDispose]()
    throw error
  }
  return server
}
