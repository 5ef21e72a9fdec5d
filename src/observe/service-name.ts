/**
 * The name under which traces show this sidecar.
 *
 * Source: OpenTelemetry, "SDK environment variables" (`OTEL_SERVICE_NAME` goes before `service.name` in `OTEL_RESOURCE_ATTRIBUTES`;
 * an empty variable is as one that is not set).
 */

const DEFAULT = 'fencepost'

export type NamingVariables = {
  /** `OTEL_SERVICE_NAME` */
  readonly serviceName?: string | undefined
  /** `OTEL_RESOURCE_ATTRIBUTES` */
  readonly resourceAttributes?: string | undefined
}

export function serviceNameOf({ serviceName = '', resourceAttributes = '' }: NamingVariables): string {
  return serviceName.trim() || attribute('service.name', resourceAttributes) || DEFAULT
}

/** Of `key=value,key=value`, where values are percent-encoded. */
function attribute(key: string, attributes: string): string | undefined {
  for (const member of attributes.split(',')) {
    const [name, ...value] = member.split('=')
    if (name?.trim() === key) return decoded(value.join('=').trim())
  }
  return undefined
}

function decoded(value: string): string | undefined {
  try {
    return decodeURIComponent(value)
  } catch {
    return undefined
  }
}
