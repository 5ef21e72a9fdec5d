import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PART_HEAD_BYTES_MAX, PARTS_MAX, readMultipartForm } from '../../../src/core/formats/multipart.ts'
import { hashOf, headOf } from '../../support/requests.ts'

const DISPOSITION = 'Content-Disposition: form-data; name="n"'
const body = (...lines: string[]) => Buffer.from(lines.join('\r\n'), 'latin1')
const read = (...lines: string[]) => readMultipartForm(body(...lines), 'X')

type Part = { name: string; filename: string | undefined; type: string | undefined; content: string }

function render(boundary: string, parts: readonly Part[]): Buffer {
  const rendered = parts.map(({ name, filename, type, content }) => [
    `--${boundary}`,
    `Content-Disposition: form-data; name="${name}"${filename === undefined ? '' : `; filename="${filename}"`}`,
    ...(type === undefined ? [] : [`Content-Type: ${type}`]),
    '',
    content,
  ])
  return body(...rendered.flat(), `--${boundary}--`, '')
}

const part = fc.record({
  name: fc.constantFrom('a', 'b', 'a b', ''),
  filename: fc.option(fc.constantFrom('a', 'b.txt', ''), { nil: undefined }),
  type: fc.option(fc.constantFrom('text/plain', 'a/b'), { nil: undefined }),
  // Line ends and the beginnings of boundaries, also of the other one.
  content: fc.stringMatching(/^(a|\r\n|--|\r\n--|\r|\n|Z){0,5}$/),
})
const form = fc.array(part, { maxLength: 3 })

test('two forms under two boundaries are one exactly when their parts are equal, in order', async () => {
  const pairs = fc.oneof(
    fc.tuple(form, form),
    form.map((parts) => [parts, structuredClone(parts)] as const),
    form.map((parts) => [parts, parts.toReversed()] as const),
  )
  const hash = (boundary: string, parts: readonly Part[]) =>
    hashOf(headOf(`multipart/form-data; boundary=${boundary}`), render(boundary, parts))
  await fc.assert(
    fc.asyncProperty(pairs, async ([a, b]) => {
      expect(readMultipartForm(render('XY', a), 'XY').kind).toBe('parts')
      expect((await hash('XY', a)) === (await hash('--x.Q', b))).toBe(JSON.stringify(a) === JSON.stringify(b))
    }),
    { numRuns: 2_000 },
  )
})

/** Bug: a button without fields was another request at each click, and its retry with a key was refused as the key of another one. */
test.each<[writer: string, lines: string[]]>([
  ['fetch, form-data, browsers', ['--X--', '']],
  ['a client that ends without a line end', ['--X--']],
  ['mime/multipart of Go', ['', '--X--', '']],
])('a form without fields, as %s: has no parts', (_, lines) => {
  expect(read(...lines)).toEqual({ kind: 'parts', parts: [] })
})

test('a part is its name, file name, type, other fields and content', () => {
  const result = read(
    '--X',
    'content-disposition: FORM-DATA; Name=n; filename="a \\"b\\".txt"; filename*=UTF-8\'\'a',
    'Content-Type:  text/plain ',
    'X-More: 1',
    '',
    '',
    '--X--',
  )
  expect(result).toMatchObject({
    kind: 'parts',
    parts: [
      {
        name: 'n',
        filename: 'a \\"b\\".txt',
        extendedFilename: "UTF-8''a",
        type: 'text/plain',
        otherFields: [['x-more', '1']],
      },
    ],
  })
})

test.each<[name: string, lines: string[], reason: string]>([
  ['an empty body', [''], 'broken_boundaries'],
  ['only the end, behind text', ['hello', '--X--'], 'broken_boundaries'],
  ['only the end, and text behind it', ['--X--', 'bye'], 'broken_boundaries'],
  ['only the end of another boundary', ['--Y--', ''], 'broken_boundaries'],
  ['a preamble', ['hello', '--X', DISPOSITION, '', 'v', '--X--'], 'broken_boundaries'],
  ['an epilogue', ['--X', DISPOSITION, '', 'v', '--X--', 'bye'], 'broken_boundaries'],
  ['no last boundary', ['--X', DISPOSITION, '', 'v', '--X'], 'broken_boundaries'],
  ['never closed', ['--X', DISPOSITION, '', 'v'], 'broken_boundaries'],
  [
    'padding behind a boundary',
    ['--X', DISPOSITION, '', 'v', '--X ', DISPOSITION, '', '', '--X--'],
    'broken_boundaries',
  ],
  ['a boundary that goes on', ['--X', DISPOSITION, '', 'v', '--XY', '--X--'], 'broken_boundaries'],
  ['bare line feeds', ['--X\nContent-Disposition: form-data; name="n"\n\nv\n--X--'], 'broken_boundaries'],
  ['no empty line', ['--X', DISPOSITION, 'v', '--X--'], 'broken_part_head'],
  ['no disposition', ['--X', 'Content-Type: a/b', '', 'v', '--X--'], 'broken_part_head'],
  ['no name', ['--X', 'Content-Disposition: form-data', '', 'v', '--X--'], 'broken_part_head'],
  ['two names', ['--X', `${DISPOSITION}; name="m"`, '', 'v', '--X--'], 'broken_part_head'],
  ['two dispositions', ['--X', DISPOSITION, DISPOSITION, '', 'v', '--X--'], 'broken_part_head'],
  [
    'another disposition',
    ['--X', 'Content-Disposition: attachment; name="n"', '', 'v', '--X--'],
    'broken_part_head',
  ],
  ['an unknown parameter', ['--X', `${DISPOSITION}; size=5`, '', 'v', '--X--'], 'broken_part_head'],
  [
    'a name that is never closed',
    ['--X', 'Content-Disposition: form-data; name="n', '', 'v', '--X--'],
    'broken_part_head',
  ],
  [
    'a quote inside a name',
    ['--X', 'Content-Disposition: form-data; name="a"b"', '', 'v', '--X--'],
    'broken_part_head',
  ],
  ['a folded line', ['--X', DISPOSITION, ' ; filename=a', '', 'v', '--X--'], 'broken_part_head'],
  ['a bare CR in a field', ['--X', `${DISPOSITION}`, 'X-A: 1\r2', '', 'v', '--X--'], 'broken_part_head'],
  ['a head without end', ['--X', 'x'.repeat(PART_HEAD_BYTES_MAX + 1), '--X--'], 'part_head_too_long'],
])('%s: compared byte for byte', (_name, lines, reason) => {
  expect(read(...lines)).toMatchObject({ kind: 'raw', reason })
})

test.each([undefined, '', 'a'.repeat(71), 'ends in a space ', 'a"b', 'a\r\nb', 'ä'])(
  '%j is no boundary',
  (boundary) => {
    expect(readMultipartForm(body('--X--'), boundary)).toMatchObject({ reason: 'no_valid_boundary' })
  },
)

test('a form of 1,000 parts is read, one of 1,001 is compared byte for byte', () => {
  const parts = (count: number) =>
    read(...Array.from({ length: count }, () => ['--X', DISPOSITION, '', 'v']).flat(), '--X--')
  expect(parts(PARTS_MAX)).toMatchObject({ kind: 'parts', parts: { length: PARTS_MAX } })
  expect(parts(PARTS_MAX + 1)).toMatchObject({ kind: 'raw', reason: 'too_many_parts' })
})
