/** A registry for images and charts on loopback, with its storage in a folder that is gone at the end. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { TestProcess } from './processes.ts'
import { requireProgram } from './programs.ts'

export type ImageRegistry = AsyncDisposable & {
  /** `127.0.0.1:…`; it speaks HTTP */
  readonly host: string
}

export async function startImageRegistry(): Promise<ImageRegistry> {
  const folder = mkdtempSync(join(tmpdir(), 'fencepost-registry-'))
  const config = join(folder, 'config.yml')
  writeFileSync(
    config,
    `version: 0.1
log: { accesslog: { disabled: true }, formatter: text }
storage: { filesystem: { rootdirectory: ${JSON.stringify(join(folder, 'storage'))} } }
http: { addr: "127.0.0.1:0" }
`,
  )
  const child = new TestProcess(requireProgram('dockerRegistry'), ['serve', config], { name: 'registry' })
  const dispose = async () => {
    await child[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const [, host = ''] = await child.line(/listening on (127\.0\.0\.1:\d+)/)
    return { host, [Symbol.asyncDispose]: dispose }
  } catch (cause) {
    await dispose()
    throw cause
  }
}
