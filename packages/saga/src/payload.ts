/**
 * The payload that a handler gets: what the mapping read, or the body as JSON, validated by the schema of its type.
 *
 * Source: Standard Schema 1 (https://standardschema.dev), which zod, valibot, ArkType and others implement: only its
 * interface is needed here, no package.
 */
import { InvalidPayloadError, NonRetryableError } from './errors.ts'
import type { Arrival } from './inbound.ts'
import { type Delivery, parsedJson } from './messages.ts'

type Issue = {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}
type Result = { readonly value: unknown; readonly issues?: undefined } | { readonly issues: readonly Issue[] }

/** The part of Standard Schema 1 that validates. */
export type StandardSchema = {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => Result | Promise<Result>
  }
}

/** By message type; a type without a schema is not validated. */
export type Schemas = Readonly<Record<string, StandardSchema>>

/** More would fill the dead letter without telling more. */
const issuesMax = 10

/**
 * The handler gets what the schema makes of the payload: defaults and conversions included.
 * @throws NonRetryableError if the body is no JSON
 * @throws InvalidPayloadError if the schema refuses it
 */
export async function payloadOf(arrival: Arrival, schemas: Schemas = {}): Promise<unknown> {
  const { type } = arrival.message
  const payload = read(arrival)
  const schema = Object.hasOwn(schemas, type) ? schemas[type] : undefined
  if (schema === undefined) return payload
  const result = await schema['~standard'].validate(payload)
  if (result.issues === undefined) return result.value
  const shown = result.issues.slice(0, issuesMax).map(textOf)
  const more = result.issues.length - shown.length
  throw new InvalidPayloadError(type, [...shown, ...(more > 0 ? [`and ${more} more`] : [])])
}

function read({ message, delivery, payload }: Arrival): unknown {
  if (payload !== undefined) return payload.value
  if (delivery?.bytes !== undefined) throw new NonRetryableError(notText(delivery))
  try {
    return parsedJson(message.body)
  } catch (error) {
    throw new NonRetryableError('the body of the message is not JSON', { cause: error })
  }
}

/** As JSON it would reach the handler with U+FFFD in place of what was sent. */
function notText({ properties, headers }: Delivery): string {
  const coding = properties['content-encoding'] ?? headers['content-encoding']
  const coded = coding === undefined ? '' : ` (its content-encoding is ${coding})`
  return `the body of the message is no UTF-8, so no JSON${coded}; read its bytes in an inbound mapping (delivery.bytes), and give the payload there`
}

function textOf({ message, path = [] }: Issue): string {
  const where = path.map((part) => String(typeof part === 'object' ? part.key : part)).join('.')
  return where === '' ? message : `${where}: ${message}`
}
