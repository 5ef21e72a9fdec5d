/**
 * A client of Prisma for a schema without models, which is all that raw SQL needs. `prisma generate` writes the same
 * configuration; it is not run here, because it wants a binary from a server of its own, and the client does not.
 */
import type { PrismaPg } from '@prisma/adapter-pg'
import * as runtime from '@prisma/client/runtime/client'

type Raw = {
  $queryRawUnsafe(query: string, ...values: unknown[]): Promise<unknown>
  $executeRawUnsafe(query: string, ...values: unknown[]): Promise<number>
}
export type PrismaClient = Raw & {
  $transaction<T>(work: (tx: Raw) => Promise<T>): Promise<T>
  $disconnect(): Promise<void>
}

/** The package has no types for these two modules. */
const compiler = '@prisma/client/runtime/query_compiler_fast_bg.postgresql'

/** Node has it; the types that this repository is compiled with name it nowhere. */
function compiled(base64: string): unknown {
  const { WebAssembly } = globalThis as unknown as {
    WebAssembly: { Module: new (bytes: Uint8Array) => unknown }
  }
  return new WebAssembly.Module(Buffer.from(base64, 'base64'))
}

const schema = 'datasource db {\n  provider = "postgresql"\n}\n'

export function openPrisma(adapter: PrismaPg): PrismaClient {
  const Client = runtime.getPrismaClient({
    previewFeatures: [],
    clientVersion: '7.10.0',
    engineVersion: '',
    activeProvider: 'postgresql',
    inlineSchema: schema,
    runtimeDataModel: { models: {}, enums: {}, types: {} },
    parameterizationSchema: { strings: [], graph: 'AAAA' },
    compilerWasm: {
      getRuntime: () => import(`${compiler}.mjs`),
      getQueryCompilerWasmModule: async () => compiled((await import(`${compiler}.wasm-base64.mjs`)).wasm),
      importName: './query_compiler_fast_bg.js',
    },
  } as never) as unknown as new (options: {
    adapter: PrismaPg
  }) => PrismaClient
  return new Client({ adapter })
}
