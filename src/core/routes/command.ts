/**
 * What is protected without a key where nobody has chosen it: a command, which is JSON or a form, and small enough to be compared whole.
 *
 * Whatever else is sent with a body may be a read, a part of a conversation or an upload (git, gRPC-Web, NDJSON, files): two equal ones are two.
 */

import { linesOf } from '../formats/header-lines.ts'
import { isJson, isMultipartForm, isUrlencodedForm, parseMediaType } from '../formats/media-type.ts'
import type { HeaderList } from '../header-list.ts'

/** Named as JSON (RFC 6839), and a sequence of messages. */
const IN_FRAMES = /^application\/(connect|grpc|stream)\b/

/** @param bytesMax a body that states no length is read, and passes on where it turns out to be longer */
export function isCommand(headers: HeaderList, bytesMax: number): boolean {
  const [type, ...more] = linesOf(headers, 'content-type').map(parseMediaType)
  if (type === undefined || more.length > 0) return false
  const { essence } = type
  const isRead =
    (isJson({ essence, charset: undefined }) && !IN_FRAMES.test(essence)) ||
    isUrlencodedForm(type) ||
    isMultipartForm(type)
  return isRead && linesOf(headers, 'content-length').every((length) => Number(length) <= bytesMax)
}
