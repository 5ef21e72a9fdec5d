/**
 * Writes docs/reference/configuration.md, docs/config.schema.json and what the charts know of settings, from the tables of settings and
 * route fields.
 *
 * A test compares the files with what this makes: after a change of a table run `npm run generate -- settings`.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { builtinRoutes } from '../src/config/builtin-policy.ts'
import { loadConfig } from '../src/config/load.ts'
import { printedRoute, textOfRoutes } from '../src/config/print.ts'
import { RELATIONS } from '../src/config/relations.ts'
import { fileSchema, ROUTE_FIELDS } from '../src/config/route-fields.ts'
import { rowOf, SETTING_KEYS } from '../src/config/settings.ts'
import { table } from './chart-readme.ts'
import { writeChartSettings } from './chart-settings.ts'

export function schemaText(): string {
  return `${JSON.stringify(fileSchema(), undefined, 2)}\n`
}

export function referenceText(): string {
  return [
    '# Configuration',
    '<!-- Written by `npm run generate -- settings` from src/config/settings.ts and src/config/route-fields.ts; do not edit by hand. -->',
    INTRODUCTION,
    '## Settings',
    'FENCEPOST_CONFIG, read from the environment only, names the YAML file; without it there is none.',
    table(['variable', 'in the file', 'default', 'meaning', 'accepted', 'why this default'], settingRows()),
    '## Relations',
    'Checked at the start, for the settings and for every protected route; the message shows the inequality with its numbers.',
    table(
      ['relation', 'otherwise'],
      RELATIONS.map(({ text, otherwise }) => [text, otherwise]),
    ),
    '## Routes',
    ROUTES_TEXT,
    table(
      ['member', 'default', 'meaning'],
      Object.entries(ROUTE_FIELDS).map(([name, field]) => [
        `\`${name}\``,
        inCode(field.default),
        field.summary,
      ]),
    ),
    '### An example',
    `\`\`\`yaml\n${EXAMPLE}\`\`\``,
    '### Without routes',
    'Where the file has no `routes`, or there is no file, these are in force. A request that matches none of them passes through untouched.',
    `\`\`\`yaml\n${builtinText()}\`\`\``,
  ]
    .join('\n\n')
    .concat('\n')
}

const INTRODUCTION = `You set fencepost by environment variables, by a YAML file, or by both. The environment wins over the file, the file over the default. A value
that is refused is an error even where another would have won, and nothing falls back to a default: fencepost prints **every** error with the
setting's name, the value given (secrets masked) and what is accepted, and exits 78. A \`FENCEPOST_*\` variable or a key of the file that is no setting is an error, too (but for variables that Kubernetes makes for
Services, such as \`FENCEPOST_REDIS_SERVICE_HOST\`).

Durations and sizes carry their unit: \`500ms\`, \`30s\`, \`5m\`, \`24h\`, \`7d\`; \`512B\`, \`256KiB\`, \`1MiB\`. Switches are \`on\` or
\`off\`, in the file also \`true\` or \`false\`. Text that looks like a number is put in quotes in the file. The file, and every file that a setting
names, is text in UTF-8; a byte order mark at its beginning is left out.

\`fencepost config check\` says whether a configuration is accepted, \`fencepost config print\` shows every effective value
with where it comes from, \`fencepost config schema\` prints the JSON Schema of the file, of which
[config.schema.json](../config.schema.json) is a copy: editors take it from a first line
\`# yaml-language-server: $schema=…/docs/config.schema.json\`.`

const ROUTES_TEXT = `\`routes\` is a list, tried in order; the first match decides. Paths are compared after escapes have been
undone and empty and dot segments removed, and \`/payments\` is also the path of \`/payments;jsessionid=1\`, so that another spelling of a path does not slip past;
a slash at the end makes no difference. \`{name}\` is one segment, \`{name*}\` at the end is whatever is left. The syntax of other routers (\`:id\`, \`<id>\`, \`[id]\`, regular
expressions) is refused; \`%3Aid\` stands for the text \`:id\`. A route that is never reached, because one before it matches all of its requests, is refused, too.

Applications do not agree how a request is read, so it is matched as each of them may read it: the first route that protects it in any reading decides. Where
none does, it has the route of the reading by the standard (RFC 3986), or none. Such readings are

- of the path: \`%2F\` and a backslash divide it, and the case of letters does not count (\`/api%2FPayments\` has the route of \`/api/payments\`, and \`/files/a%2Fb\` the parameter
  \`a%2Fb\` where a protected \`/files/{id}\` comes first); blanks around a segment are none (\`/payments%20\`); a program is no part of it, or all of it (\`/index.php/payments\`,
  \`/pay.php/x\`); nor is the form of the answer (\`/payments.json\`);
- of the method: that in \`X-HTTP-Method-Override\`, \`X-HTTP-Method\`, \`X-Method-Override\`, and in a parameter \`_method\` of the query. The field \`_method\` of a form is not read;
  \`fencepost config check\` names the routes that such a form passes by;
- of header names: \`X_Mode\` is \`X-Mode\` in the conditions, keys and entities of routes.`

export const EXAMPLE = `routes:
  - name: payments
    match:
      methods: [POST]
      paths: ["/payments", "/payments/{id}/captures"]
    mode: both
    required: true
    key: { headers: [idempotency-key], format: uuid }
    fingerprint: { exclude: ["/sent_at", "/items/*/displayed"] }
    principal:
      jwt:
        issuer: https://id.example.com/
        audience: payments
        jwks: https://id.example.com/.well-known/jwks.json
    retention: 7d
    onContention: wait
    wait: { max: 5s, waiters: 64 }
    store: { 5xx: store, 404: release }
    entities: [{ body: /account_id }]
  - name: webhooks
    match:
      paths: ["/webhooks/{provider}"]
      headers: { x-event-id: present }
    mode: header
    key: { parts: [{ path: provider }, { header: x-event-id }] }
    onQuorumLoss: local
  - name: everything-else
    match: {}
    mode: bypass
`

function settingRows(): readonly (readonly string[])[] {
  return SETTING_KEYS.map((key) => {
    const { env, path, kind, summary, source, ...row } = rowOf(key)
    const fallback =
      row.default.kind === 'text'
        ? `\`${row.default.text}\``
        : row.default.kind === 'none'
          ? 'none'
          : 'required'
    return [`\`${env}\``, `\`${path}\``, fallback, summary, kind.accepts, source]
  })
}

function builtinText(): string {
  const loaded = loadConfig({ FENCEPOST_REDIS_NODES: 'embedded', FENCEPOST_PROXY_LISTEN: 'off' }, () => '')
  if (loaded.kind === 'invalid') throw new Error('the defaults are refused')
  return textOfRoutes(builtinRoutes(loaded.config).map(printedRoute))
}

function inCode(fallback: string): string {
  return fallback.startsWith('FENCEPOST_') && !fallback.includes(' ') ? `\`${fallback}\`` : fallback
}

if (import.meta.main) {
  const docs = join(import.meta.dirname, '..', 'docs')
  writeFileSync(join(docs, 'reference/configuration.md'), referenceText())
  writeFileSync(join(docs, 'config.schema.json'), schemaText())
  // The charts know the settings, too.
  writeChartSettings()
}
