/** The inspector of another Node process, over the WebSocket that `--inspect` opens: one call at a time. */

export type Inspector = AsyncDisposable & {
  /** @throws Error with the inspector's message where it refuses */
  post<Result>(method: string, params?: Readonly<Record<string, unknown>>): Promise<Result>
}

type Reply = {
  readonly id?: number
  readonly result?: unknown
  readonly error?: { readonly message: string }
}

/** @param output what the process wrote to its standard error since it began: it names the address */
export async function openInspector(output: string): Promise<Inspector> {
  const address = /Debugger listening on (ws:\S+)/.exec(output)?.[1]
  if (address === undefined) throw new Error('the process did not say where its inspector listens')
  const socket = new WebSocket(address)
  await new Promise((resolve, reject) => {
    socket.addEventListener('open', resolve, { once: true })
    socket.addEventListener('error', () => reject(new Error(`no connection to ${address}`)), { once: true })
  })
  let calls = 0
  return {
    post<Result>(method: string, params = {}) {
      calls += 1
      const id = calls
      return new Promise<Result>((resolve, reject) => {
        const hear = ({ data }: MessageEvent) => {
          const reply = JSON.parse(String(data)) as Reply
          if (reply.id !== id) return
          socket.removeEventListener('message', hear)
          if (reply.error === undefined) resolve(reply.result as Result)
          else reject(new Error(`${method}: ${reply.error.message}`))
        }
        socket.addEventListener('message', hear)
        socket.send(JSON.stringify({ id, method, params }))
      })
    },
    async [Symbol.asyncDispose]() {
      socket.close()
    },
  }
}
