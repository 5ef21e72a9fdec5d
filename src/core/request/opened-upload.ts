/**
 * A request that opens an upload: its answer names where the content goes, which comes later.
 *
 * It says how long the content is and what it is called, and nothing of the content. Two files of one name and length are opened by equal
 * requests, and so are the layers of an image. Taken for one request, both would get one address, and one of them would be lost without an
 * error. Opened twice, one upload more is left over, which the application removes. So the content of such a request is no key.
 *
 * Source: tus.io/protocols/resumable-upload, "Creation"; draft-ietf-httpbis-resumable-upload, "Upload Creation"; OCI distribution
 * specification, "Pushing blobs"; cloud.google.com/storage/docs/performing-resumable-uploads.
 */

import { queryValues } from '../formats/query.ts'
import { linesOf } from '../header-list.ts'
import type { RequestFacts } from '../routes/route.ts'

/** OCI: `POST /v2/{name}/blobs/uploads/`. With `digest` the content is named, or comes at once. */
const BLOB_UPLOADS = /^\/v2\/.+\/blobs\/uploads\/?$/

/** @param bytes of the body: what is there whole says what is uploaded */
export function opensUpload(
  { method, path, query, headers }: Omit<RequestFacts, 'host'>,
  bytes: number,
): boolean {
  // PATCH and PUT continue one.
  if (method !== 'POST') return false
  const line = (name: string) => linesOf(headers, name)[0]?.trim()
  const stated = line('upload-length')
  if (stated !== undefined && Number(stated) > bytes) return true
  if (line('upload-defer-length') === '1') return true
  if (line('upload-complete') === '?0' && line('upload-offset') === undefined) return true
  if (/^start\s*$/i.test(line('x-goog-upload-command') ?? '')) return true
  if (queryValues(query, 'uploadType')[0] === 'resumable' && queryValues(query, 'upload_id').length === 0)
    return true
  return BLOB_UPLOADS.test(path) && queryValues(query, 'digest').length === 0 && bytes === 0
}
