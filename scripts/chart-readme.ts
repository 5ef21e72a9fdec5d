/**
 * `npm run generate -- charts`: writes deploy/helm/<chart>/README.md from Chart.yaml, the comments of values.yaml, values.schema.json and
 * the first lines of ci/*-values.yaml; of the library chart from the head of its parts.
 *
 * A test compares the files with what this makes. A value without a comment (`# -- …`) is an error, not an empty cell.
 */
import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { isMap, parse, parseDocument, type YAMLMap } from 'yaml'

const helm = join(import.meta.dirname, '../deploy/helm')
export const CHARTS = ['fencepost', 'fencepost-lib', 'example'] as const
export type Chart = (typeof CHARTS)[number]

type Schema = {
  readonly type?: string | readonly string[]
  readonly enum?: readonly unknown[]
  readonly pattern?: string
  readonly minimum?: number
  readonly maximum?: number
  readonly properties?: Readonly<Record<string, Schema>>
}

const INTRODUCTIONS: Record<Chart, string> = {
  fencepost: `\`\`\`
head -c 32 /dev/urandom | base64 > token
kubectl create secret generic fencepost-token --from-file=token=./token
password=$(head -c 32 /dev/urandom | base64 | tr -dc A-Za-z0-9)
operator=$(head -c 32 /dev/urandom | base64 | tr -dc A-Za-z0-9)
sed "s/replace-this-password/$password/; s/replace-this-other-password/$operator/" deploy/k8s/nodes-tls-acl/users.acl.example > users.acl
kubectl create secret generic fencepost-redis-users --from-file=users.acl --from-literal=password="$password" \\
  --from-literal=operator-password="$operator"
helm dependency build deploy/helm/fencepost
helm install fencepost deploy/helm/fencepost --wait --set service.tokenSecret=fencepost-token \\
  --set redis.username=fencepost,redis.passwordSecret=fencepost-redis-users,redis.bundled.usersSecret=fencepost-redis-users
helm test fencepost
\`\`\`

\`helm test\` reserves, is refused a duplicate, releases and reserves again on the nodes of the release, and asks \`fencepost doctor\`, which says
what is not well with them (on failure: \`kubectl logs RELEASE-selftest --container doctor\`). Bad values are refused by
the schema or by a guard, with a sentence that names the value. How two settings have to agree (a retention that covers the retries of clients, …) fencepost
checks itself: a pod with settings that do not go together ends at its start with exit code 78 and says why, and \`fencepost config check\` says it
before. How to size, upgrade and rotate: docs/operations/deploy.md.`,
  'fencepost-lib': `Add it to the dependencies of your chart, and include its parts in the pod of your application; the chart \`example\` beside it
does that. The pod also needs the label \`fencepost.dev/client: "true"\` where the nodes have the network policy of the chart
\`fencepost\`. The Service of the application leads to port 8080 by number (\`targetPort: 8080\`): before Kubernetes 1.33 it finds no port of a native
sidecar by its name.

| part | where |
|---|---|
| \`fencepost-lib.sidecar\` | in \`initContainers\`: a native sidecar, started before the application and ended after it |
| \`fencepost-lib.volumes\` | in \`volumes\` |
| \`fencepost-lib.podAnnotations\` | in \`annotations\` of the pod: \`helm upgrade\` replaces the pods when what \`nodesFrom\`, \`redisPasswordSecret\`, \`redisCaSecret\` or \`secretFiles\` name has changed. For \`configMap\` give the pod a checksum of your own template |
| \`fencepost-lib.appEnv\` | in \`env\` of the application: \`FENCEPOST_URL\`, where the reservation API of its own sidecar is |
| \`fencepost-lib.securityContext\` | of any container: what Pod Security "restricted" asks for |`,
  example:
    'Shows how the parts of `fencepost-lib` are included. Not for use as it is: its image does not exist.',
}

export function chartReadme(chart: Chart): string {
  const folder = join(helm, chart)
  const about = parse(readFileSync(join(folder, 'Chart.yaml'), 'utf8')) as Record<string, string>
  const facts = [
    `Version ${about.version}`,
    ...(about.appVersion === undefined ? [] : [`fencepost ${about.appVersion}`]),
    ...(about.kubeVersion === undefined ? [] : [`Kubernetes ${about.kubeVersion.replace(/-0$/, '')}`]),
  ]
  const sections = [
    `# ${about.name}`,
    '<!-- Written by `npm run generate -- charts` from values.yaml, its schema and the templates; do not edit by hand. -->',
    `${about.description} ${facts.join(', ')}.`,
    INTRODUCTIONS[chart],
    existsSync(join(folder, 'values.yaml')) ? valuesSection(folder) : partsSection(folder),
    ...modes(folder),
  ]
  return `${sections.join('\n\n')}\n`
}

function valuesSection(folder: string): string {
  const document = parseDocument(readFileSync(join(folder, 'values.yaml'), 'utf8'))
  const schemaFile = join(folder, 'values.schema.json')
  const schema = existsSync(schemaFile) ? (JSON.parse(readFileSync(schemaFile, 'utf8')) as Schema) : {}
  const rows = valueRows(document.contents as unknown as YAMLMap, schema, [])
  return `## Values\n\n${table(['value', 'accepted', 'default', 'meaning'], rows)}`
}

function valueRows(map: YAMLMap, schema: Schema, path: readonly string[]): string[][] {
  return map.items.flatMap(({ key, value }) => {
    const { value: name, commentBefore } = key as { value: string; commentBefore?: string }
    const at = [...path, name]
    const of = schema.properties?.[name]
    // Yaml gives the comment of the first key of a map to the map.
    const first = map.items[0]?.key === key ? map.commentBefore : undefined
    // A map with a meaning of its own is one value, as Kubernetes defines its members.
    if (isMap(value) && of?.properties !== undefined && described(commentBefore) === undefined)
      return valueRows(value, of, at)
    const meaning = described(commentBefore ?? first)
    if (meaning === undefined) throw new Error(`${at.join('.')} has no comment that begins with --`)
    const byDefault = JSON.stringify((value as { toJSON(): unknown }).toJSON())
    // A default that is an example of its own stands in values.yaml.
    const shown = byDefault.length > 60 ? 'see values.yaml' : `\`${byDefault}\``
    return [[`\`${at.join('.')}\``, of === undefined ? '' : accepted(of), shown, meaning]]
  })
}

function described(comment: string | null | undefined): string | undefined {
  const from = comment?.lastIndexOf(' -- ') ?? -1
  if (comment === null || comment === undefined || from === -1) return undefined
  return comment
    .slice(from + 4)
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim()
}

function accepted({ type, enum: among, pattern, minimum, maximum }: Schema): string {
  if (among !== undefined) return among.map((one) => `\`${String(one)}\``).join(', ')
  const named = typeof type === 'string' ? type : (type?.join(' or ') ?? 'anything')
  if (pattern !== undefined) return `${named} like \`${pattern}\``
  if (minimum !== undefined && maximum !== undefined) return `${named}, ${minimum} to ${maximum}`
  return minimum === undefined ? named : `${named}, ${minimum} or more`
}

const PARAMETER = /^ {2}-- (\w+): (.+)$/gm
const USED = /[\s(]\.([a-z]\w*)/g

/** Of the library chart: what its parts take. */
function partsSection(folder: string): string {
  const file = join(folder, 'templates/_sidecar.tpl')
  const text = readFileSync(file, 'utf8')
  const rows = [...text.matchAll(PARAMETER)].map(([, name, meaning]) => [`\`${name}\``, meaning as string])
  const known = new Set(rows.map(([name]) => name))
  // The part that names the image takes the image, and its members are named in the row of it.
  const others = text.replace(/define "fencepost-lib\.image"[\s\S]*?\{\{- end \}\}\n\n/, '')
  const actions = [...others.matchAll(/\{\{-?(?!\/\*)[^}]*\}\}/g)].map(([action]) => action).join(' ')
  const unnamed = [...actions.matchAll(USED)]
    .map(([, name]) => name)
    .filter((name) => !known.has(`\`${name}\``))
  if (unnamed.length > 0)
    throw new Error(`the head of ${file} says nothing of ${[...new Set(unnamed)].join(', ')}`)
  return `## What the parts take\n\n${table(['member', 'meaning'], rows)}`
}

function modes(folder: string): string[] {
  const rows = globSync(join(folder, 'ci/*-values.yaml'))
    .sort()
    .map((file) => {
      const [first = ''] = readFileSync(file, 'utf8').split('\n')
      if (!first.startsWith('# '))
        throw new Error(`${file} does not begin with a comment that says what it is for`)
      return [`[ci/${basename(file)}](ci/${basename(file)})`, first.slice(2)]
    })
  return rows.length === 0 ? [] : [`## Modes\n\n${table(['values', 'what they give'], rows)}`]
}

export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...rows.map(line)].join('\n')
}

if (import.meta.main)
  for (const chart of CHARTS) writeFileSync(join(helm, chart, 'README.md'), chartReadme(chart))
