/**
 * Validates manifests as Kubernetes does: by the JSON Schemas of its API, strictly (no unknown field), and by the Pod
 * Security Standard "restricted".
 *
 * Source: https://kubernetes.io/docs/concepts/security/pod-security-standards
 */
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { parse, parseAllDocuments } from 'yaml'
import { fetchProgram } from './fetched-programs.ts'

// biome-ignore lint/suspicious/noExplicitAny: a manifest is whatever its author wrote; the schema says what it should be
export type Manifest = any

export const KUBERNETES_VERSIONS = ['v1.29.0', 'v1.37.0'] as const

export function manifestsIn(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map((document) => {
      if (document.errors.length > 0) throw document.errors[0]
      return document.toJS()
    })
    .filter((manifest) => manifest !== null)
}

const nameOf = (manifest: Manifest) => `${manifest.kind}/${manifest.metadata?.name}`

/** The validators of one version by the file that they are made of: making one takes longer than any number of checks. */
type KnownValidators = {
  readonly folder: string
  readonly ajv: Ajv2020
  readonly known: Map<string, ValidateFunction>
}

const validatorsOf = new Map<string, Promise<KnownValidators>>()

async function openValidators(version: string): Promise<KnownValidators> {
  const folder = join(await fetchProgram('kubernetesSchemas'), `${version}-local-strict`)
  const ajv = new Ajv2020({ strict: false, validateSchema: false, allErrors: true, validateFormats: false })
  ajv.addSchema(await json(join(folder, '_definitions.json')), '_definitions.json')
  return { folder, ajv, known: new Map() }
}

/** The objections of an API server of that version to each; empty where it accepts them all. */
export async function schemaFaults(
  manifests: readonly Manifest[],
  version: (typeof KUBERNETES_VERSIONS)[number],
): Promise<string[]> {
  const opened = validatorsOf.get(version) ?? openValidators(version)
  validatorsOf.set(version, opened)
  const { folder, ajv, known } = await opened
  const faults: string[] = []
  for (const manifest of manifests) {
    const [group = '', short = group] = [
      manifest.apiVersion.split('/')[0],
      manifest.apiVersion.split('/').at(-1),
    ]
    const suffix = manifest.apiVersion.includes('/') ? `${group.split('.')[0]}-${short}` : manifest.apiVersion
    const name = `${manifest.kind.toLowerCase()}-${suffix}.json`
    if (group.endsWith('monitoring.coreos.com')) {
      const validate = known.get(name) ?? (await operatorValidator(ajv, manifest))
      known.set(name, validate)
      if (!validate(manifest)) faults.push(...told(manifest, validate))
      continue
    }
    const validate = known.get(name) ?? ajv.compile(await json(join(folder, name)))
    known.set(name, validate)
    if (!validate(manifest)) faults.push(...told(manifest, validate))
  }
  return faults
}

async function operatorValidator(ajv: Ajv2020, manifest: Manifest): Promise<ValidateFunction> {
  const plural = `${manifest.kind.toLowerCase()}s`
  const file = join(await fetchProgram('prometheusOperator'), `monitoring.coreos.com_${plural}.yaml`)
  const definition = parse(await readFile(file, 'utf8'))
  const served = definition.spec.versions.find((one: Manifest) =>
    manifest.apiVersion.endsWith(`/${one.name}`),
  )
  return ajv.compile(closed(served.schema.openAPIV3Schema))
}

/** An API server drops fields that a definition does not name; here they are errors. */
function closed(schema: Manifest): Manifest {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(closed)
  // A case-insensitive pattern is in a syntax that only Go reads.
  const readable = Object.entries(schema).filter(
    ([key, value]) => key !== 'pattern' || !String(value).includes('(?i)'),
  )
  const copy = Object.fromEntries(readable.map(([key, value]) => [key, closed(value)]))
  const named =
    copy.type === 'object' && copy.properties !== undefined && copy.additionalProperties === undefined
  const { properties } = copy as { properties?: Record<string, unknown> }
  // Kubernetes itself describes metadata, not the definition.
  const open = properties !== undefined && Object.keys(properties).length === 0
  return named && !open && copy['x-kubernetes-preserve-unknown-fields'] !== true
    ? { ...copy, additionalProperties: false }
    : copy
}

function told(manifest: Manifest, { errors }: ValidateFunction): string[] {
  return (errors ?? []).map(
    ({ instancePath, message, params }) =>
      `${nameOf(manifest)}${instancePath} ${message} ${JSON.stringify(params)}`,
  )
}

async function json(path: string): Promise<object> {
  return JSON.parse(await readFile(path, 'utf8'))
}

/** The pod of an object, or undefined. */
export function podOf(manifest: Manifest): Manifest | undefined {
  if (manifest.kind === 'Pod') return manifest.spec
  return manifest.spec?.template?.spec ?? manifest.spec?.jobTemplate?.spec?.template?.spec
}

/** The violations of "restricted" by a pod. */
export function restrictedFaults(manifest: Manifest): string[] {
  const pod = podOf(manifest)
  if (pod === undefined) return []
  const of = pod.securityContext ?? {}
  const faults: string[] = []
  const say = (name: string, fault: string) => faults.push(`${nameOf(manifest)} ${name}: ${fault}`)
  for (const field of ['hostNetwork', 'hostPID', 'hostIPC']) if (pod[field] === true) say('pod', field)
  for (const volume of pod.volumes ?? []) {
    const kinds = [
      'configMap',
      'csi',
      'downwardAPI',
      'emptyDir',
      'ephemeral',
      'persistentVolumeClaim',
      'projected',
      'secret',
    ]
    const kind = Object.keys(volume).find((key) => key !== 'name')
    if (kind === undefined || !kinds.includes(kind)) say(volume.name, `volume of kind ${kind}`)
  }
  for (const container of [...(pod.initContainers ?? []), ...pod.containers]) {
    const own = container.securityContext ?? {}
    if (own.privileged === true) say(container.name, 'privileged')
    if (own.allowPrivilegeEscalation !== false) say(container.name, 'allowPrivilegeEscalation is not false')
    if ((own.runAsNonRoot ?? of.runAsNonRoot) !== true) say(container.name, 'runAsNonRoot is not true')
    if ((own.runAsUser ?? of.runAsUser) === 0) say(container.name, 'runAsUser is 0')
    if (!own.capabilities?.drop?.includes('ALL')) say(container.name, 'capabilities are not dropped')
    if ((own.capabilities?.add ?? []).some((one: string) => one !== 'NET_BIND_SERVICE'))
      say(container.name, 'adds capabilities')
    const seccomp = own.seccompProfile?.type ?? of.seccompProfile?.type
    if (!['RuntimeDefault', 'Localhost'].includes(seccomp))
      say(container.name, `seccompProfile is ${seccomp}`)
    for (const { hostPort } of container.ports ?? [])
      if (hostPort !== undefined) say(container.name, 'hostPort')
    for (const probe of ['startupProbe', 'readinessProbe', 'livenessProbe'])
      if (container[probe]?.httpGet?.host !== undefined || container[probe]?.tcpSocket?.host !== undefined)
        say(container.name, `${probe} names a host`)
  }
  return faults
}

export async function kustomized(folder: string): Promise<Manifest[]> {
  const kustomize = await fetchProgram('kustomize')
  const { stdout } = await promisify(execFile)(kustomize, ['build', folder], { maxBuffer: 16 * 1024 * 1024 })
  return manifestsIn(stdout)
}
