/**
 * What may be told of an internal fault: its type, its code, and where it arose.
 *
 * Owns what is left out. A message may quote what a client sent (`JSON.parse` does), and the errors of database clients
 * carry the command that failed, passwords included, as a property. The place is enough to find the line that threw.
 */

type Fault = {
  readonly type: string
  /** Such as ECONNRESET; absent where it has none that is a word. */
  readonly code?: string
  /** `at function (file:line:column)`, innermost first. */
  readonly at: readonly string[]
  readonly cause?: Fault
}

/** A chain of causes may be a circle. */
const CAUSES_MAX = 5
const FRAMES_MAX = 20
/** A name has no space or quote, and a place is in a file of a program. */
const FRAME =
  /^ {4}at (?:(?:async |new )?[\w$.<>#[\] ]{1,100} \([^()\s]+:\d+:\d+\)|(?:async )?[^()\s]+:\d+:\d+)$/
const WORD = /^[\w$]{1,64}$/

export function faultOf(error: unknown, depth = 0): Fault {
  if (!(error instanceof Error)) return { type: typeof error, at: [] }
  const { name, stack, message, cause } = error
  const { code } = error as { readonly code?: unknown }
  return {
    type: WORD.test(name) ? name : 'Error',
    ...(typeof code === 'string' && WORD.test(code) ? { code } : {}),
    at: framesOf(typeof stack === 'string' ? stack : '', message),
    ...(cause === undefined || depth === CAUSES_MAX ? {} : { cause: faultOf(cause, depth + 1) }),
  }
}

function framesOf(stack: string, message: string): readonly string[] {
  // The stack repeats the message, which may look like frames.
  const from = stack.indexOf(message)
  const rest = from === -1 ? '' : stack.slice(from + message.length)
  return rest
    .split('\n')
    .filter((line) => FRAME.test(line))
    .slice(0, FRAMES_MAX)
    .map((line) => line.trim())
}

/** The last words of a process: its report of an uncaught fault. */
export function lastWords(error: unknown): string {
  const lines: string[] = []
  let fault: Fault | undefined = faultOf(error)
  for (let word = 'fencepost failed'; fault !== undefined; word = 'caused by', fault = fault.cause) {
    const code = fault.code === undefined ? '' : ` (${fault.code})`
    lines.push(`${word}: ${fault.type}${code}`, ...fault.at.map((place) => `    ${place}`))
  }
  return `${lines.join('\n')}\n`
}

/** What went wrong, in the words of whoever threw it: JavaScript throws anything. */
export function errorText(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown)
}
