/**
 * Validates with TypeBox inside Fastify: the schemas of a listener as they are, without coercion.
 *
 * Of TypeBox only what schemas need: `typebox/compile`, and the default export in place of `* as Type`, would bring its values, codecs and its
 * language of types into the program, 112 kB that each start reads.
 */

import type { TSchema } from 'typebox'
import { Compile } from 'typebox/schema'

type Fault = {
  readonly instancePath: string
  readonly schemaPath: string
  readonly message: string
  readonly keyword: string
}

type Named = Omit<Fault, 'schemaPath'>

/** These come last: a failed union says less than the failed member. */
const LAST = new Set(['oneOf', 'anyOf', 'boolean', 'not'])

export function validatorOf(schema: unknown) {
  const compiled = Compile(schema as TSchema)
  const choice = choiceOf(schema)
  return (data: unknown) => {
    if (compiled.Check(data)) return { value: data }
    const [, found] = compiled.Errors(data) as readonly [boolean, readonly Fault[]]
    const faults = found.filter((fault) => !isOfChoice(fault)).map((fault) => named(fault, choice))
    faults.sort((a, b) => Number(LAST.has(a.keyword)) - Number(LAST.has(b.keyword)))
    const error = Object.assign(new Error('validation'), { validation: faults, code: 'FST_ERR_VALIDATION' })
    return { error }
  }
}

/** The members of which a body has exactly one: what every `oneOf` of these schemas' top level is. */
function choiceOf(schema: unknown): string {
  const { oneOf = [] } = schema as { oneOf?: readonly { readonly required?: readonly string[] }[] }
  return oneOf.flatMap(({ required = [] }) => required).join(', ')
}

/** That a member of the choice is missing says nothing: another one may be meant. */
function isOfChoice({ schemaPath }: Fault): boolean {
  return schemaPath.startsWith('#/oneOf/')
}

/** Names members, and says what a duration and a target are: the validator speaks of keywords of its schema, and of patterns. */
function named(fault: Fault & { readonly params?: unknown }, choice: string): Named {
  const { keyword, instancePath, schemaPath } = fault
  if (keyword === 'oneOf' && schemaPath === '#')
    return { keyword, instancePath, message: `must have exactly one of ${choice}` }
  const { additionalProperties } = (fault.params ?? {}) as { additionalProperties?: readonly string[] }
  if (keyword === 'additionalProperties' && additionalProperties !== undefined)
    return { keyword, instancePath, message: `must not have ${additionalProperties.slice(0, 5).join(', ')}` }
  // A pattern is no sentence, and `30` is the commonest mistake.
  const isDuration = /\/(lease|retention|wait)$/.test(instancePath)
  if (isDuration && (keyword === 'pattern' || keyword === 'type'))
    return { keyword, instancePath, message: 'must be a whole number and its unit (ms, s, m, h or d): "30s"' }
  if (keyword === 'pattern' && /^\/request\/(path|query)$/.test(instancePath))
    return {
      keyword,
      instancePath,
      message: 'must be as a client sends it, in percent-encoding: "/files/a%20b%C3%A9"',
    }
  return { keyword, instancePath, message: fault.message }
}
