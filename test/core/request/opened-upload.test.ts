import { expect, test } from 'vitest'
import { opensUpload } from '../../../src/core/request/opened-upload.ts'

type Opening = Parameters<typeof opensUpload>[0]

const of = (headers: Record<string, string>, more: Partial<Opening> = {}): Opening => ({
  method: 'POST',
  path: '/files',
  query: undefined,
  headers: Object.entries(headers),
  ...more,
})
const layer = { path: '/v2/shop/api/blobs/uploads/' }

test.each<[what: string, request: Opening, bytes: number]>([
  ['tus', of({ 'Upload-Length': '1000000', 'Upload-Metadata': 'filename YS5wZGY=' }), 0],
  ['tus, with the first part', of({ 'Upload-Length': '1000' }), 400],
  ['tus, of a length to come', of({ 'Upload-Defer-Length': '1' }), 0],
  ['tus, a part of several', of({ 'Upload-Length': '1000', 'Upload-Concat': 'partial' }), 0],
  ['resumable upload of the IETF', of({ 'Upload-Complete': '?0' }), 400],
  ['Google, by header', of({ 'X-Goog-Upload-Command': 'start' }), 20],
  ['Google, by query', of({}, { query: 'uploadType=resumable&name=a' }), 20],
  ['a layer of an image', of({}, layer), 0],
])('%s: opens an upload', (_, request, bytes) => {
  expect(opensUpload(request, bytes)).toBe(true)
})

test.each<[what: string, request: Opening, bytes: number]>([
  ['a request like any other', of({}), 20],
  ['one without a body', of({}), 0],
  ['tus, with all of the content', of({ 'Upload-Length': '1000' }), 1_000],
  ['tus, the parts joined', of({ 'Upload-Concat': 'final;/files/a /files/b' }), 0],
  ['tus, the next part', of({ 'Upload-Offset': '0' }, { method: 'PATCH' }), 400],
  ['the next part, by the IETF', of({ 'Upload-Complete': '?0', 'Upload-Offset': '100' }), 400],
  ['all of it, by the IETF', of({ 'Upload-Complete': '?1' }), 400],
  ['Google, the content', of({ 'X-Goog-Upload-Command': 'upload, finalize' }), 400],
  ['Google, the content by query', of({}, { query: 'uploadType=resumable&upload_id=x' }), 400],
  ['Google, at once', of({}, { query: 'uploadType=multipart' }), 400],
  ['a layer that is named', of({}, { ...layer, query: 'digest=sha256:00' }), 0],
  ['a layer that comes at once', of({}, layer), 400],
])('%s: opens none', (_, request, bytes) => {
  expect(opensUpload(request, bytes)).toBe(false)
})
