/** Clients of Go and Java, compiled once for each state of `go/` and `java/`. */
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { built, builtWithGo, run } from '../support/fetched-programs.ts'
import { requireProgram } from '../support/programs.ts'
import { failing, json, type Stranger } from './both-ways.ts'

const here = import.meta.dirname

async function printed(program: string, args: readonly string[]): Promise<unknown> {
  return JSON.parse((await promisify(execFile)(program, args, { timeout: 60_000 })).stdout)
}

const goClients = () => builtWithGo('strangers-go', join(here, 'go'), 'clients')

/** The folder of the classes; what they need is in `jars` beside it. */
function javaClients(): Promise<string> {
  const sources = join(here, 'java')
  const of = { name: 'strangers-java', sources, files: /\.java$|\.xml$/ }
  return built(of, 'classes', async (beside) => {
    const [jars, classes] = [join(beside, 'jars'), join(beside, 'classes')]
    const fetch = ['-q', '-B', '-f', join(sources, 'pom.xml'), 'dependency:copy-dependencies']
    await run('jars', requireProgram('maven'), [...fetch, `-DoutputDirectory=${jars}`])
    const options = ['-Xlint:all,-processing', '-Werror', '-cp', `${jars}/*`, '-d', classes]
    await run('classes', requireProgram('jdk'), [...options, join(sources, 'Clients.java')])
  })
}

/** Minutes of a processor, once. */
export async function compileClients(): Promise<void> {
  await goClients()
  await javaClients()
}

const go = (client: string) => async (origin: string) => printed(await goClients(), [client, origin])

const java = (client: string) => async (origin: string) => {
  const classes = await javaClients()
  const path = `${classes}:${join(dirname(classes), 'jars')}/*`
  const program = join(dirname(requireProgram('jdk')), 'java')
  return printed(program, ['-cp', path, 'Clients', client, origin])
}

const customer: Stranger['application'] = () => (_, response, execution) =>
  json(response, 200, { id: `cus_${execution}`, object: 'customer' })

/** The first answer is lost: directly the application executes it twice. */
const LOST = { executed: 2, executedThough: 1 } as const

export const COMPILED: readonly Stranger[] = [
  {
    client: 'go-retryablehttp',
    does: 'posts again after 503',
    application: failing(503),
    act: go('retryablehttp'),
    executed: 2,
  },
  {
    client: 'go-retryablehttp',
    does: 'posts again where the answer was lost',
    act: go('retryablehttp'),
    ...LOST,
  },
  {
    client: 'resty',
    does: 'patches again after 500',
    application: failing(500),
    act: go('resty'),
    executed: 2,
  },
  { client: 'resty', does: 'patches again where the answer was lost', act: go('resty'), ...LOST },
  { client: 'stripe-go', does: 'makes a customer', application: customer, act: go('stripe'), executed: 1 },
  {
    client: 'stripe-go',
    does: 'sends its key again where the answer was lost',
    application: customer,
    act: go('stripe'),
    ...LOST,
  },
  {
    client: 'OkHttp',
    does: 'posts again when it is told to',
    application: failing(503, { 'Retry-After': '0' }),
    act: java('okhttp'),
    executed: 2,
  },
  {
    client: 'Apache HttpClient',
    does: 'posts again after 503',
    application: failing(503),
    act: java('httpclient5'),
    executed: 2,
  },
  {
    client: 'Apache HttpClient',
    does: 'posts again after 429',
    application: failing(429),
    act: java('httpclient5'),
    executed: 2,
  },
  {
    client: 'Failsafe over java.net.http',
    does: 'posts again after 500',
    application: failing(500),
    act: java('failsafe'),
    executed: 2,
  },
  {
    client: 'Failsafe over java.net.http',
    does: 'posts again where the answer was lost',
    act: java('failsafe'),
    ...LOST,
  },
]
