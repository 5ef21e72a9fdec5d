{{/*
What fencepost needs of a pod, in parts. Each takes a dictionary (`npm run generate -- charts` writes the README from these lines):

  -- image: `registry`, `repository`, and `tag` or `digest`; `pullPolicy`
  -- nodes: list of redis:// or rediss:// URLs of 3, 5, 7 or 9 independent nodes, several such lists by the names of their groups, or `[embedded]`
  -- nodesFrom: instead of `nodes`, a ConfigMap or Secret that has them as FENCEPOST_REDIS_NODES takes them: `{ configMap: NAME, key: KEY }` or `{ secret: NAME, key: KEY }`
  -- upstream: the application, such as http://127.0.0.1:3000; without it the proxy is off
  -- redisUsername: ACL user of the nodes
  -- redisPasswordSecret: Secret with the key `password` of that user
  -- redisCaSecret: Secret with the key `ca.crt`, for rediss:// nodes
  -- redisCertSecret: Secret with the keys `tls.crt` and `tls.key`, the certificate that is shown to rediss:// nodes; it may be renewed while the pod runs
  -- apiTokenSecret: Secret with the key `token`, which callers of the reservation API and gateways must show
  -- configMap: ConfigMap with the key `fencepost.yaml`, as FENCEPOST_CONFIG takes it
  -- settings: further settings by their environment variables, such as `FENCEPOST_LEASE: 60s`; text that looks like a number, or like yes or no, is put in quotes
  -- secretFiles: settings that name a file, such as `FENCEPOST_TLS_KEY_FILE: { secret: NAME, key: tls.key }`, each mounted from a Secret
  -- resources: of the container; no CPU limit, being throttled is to miss renewals
  -- securityContext: of the container, instead of the part of that name; on OpenShift without runAsUser and runAsGroup
  -- probes: times of its probes, such as `{ startup: { failureThreshold: 60 } }`; also `readiness` and `liveness`
  -- listenHost: where the listeners are that are reached from beyond the pod: `0.0.0.0`, or `[::]` (IPv6, and IPv4 too) where pods have IPv6 addresses
  -- operator: opens the operator listener (docs/operations/one-key.md): `tokensSecret`, a Secret with the key `tokens`; `tlsSecret`, a Secret with `tls.crt` and `tls.key`, without which it listens in the pod alone
  -- shared: opens the reservation API and the gateway listener beyond the pod, as the chart `fencepost` does

  initContainers:
    {{- include "fencepost-lib.sidecar" .Values.fencepost | nindent 8 }}
  volumes:
    {{- include "fencepost-lib.volumes" .Values.fencepost | nindent 8 }}
  containers: - env:
    {{- include "fencepost-lib.appEnv" . | nindent 12 }}
  metadata: annotations:
    {{- include "fencepost-lib.podAnnotations" (dict "fencepost" .Values.fencepost "namespace" .Release.Namespace) | nindent 8 }}

A library renders nothing by itself. The pod also needs the label fencepost.dev/client: "true" where the nodes have the
network policy of the chart.
*/}}

{{/*
A native sidecar: started before the application, ended after it. The kubelet runs its preStop as soon as the pod is to end, while the
application still works: fencepost then ends each connection with its next answer, so that clients with open connections go to
another pod before the application is gone. They would get 502 and 503 otherwise.
*/}}
{{- define "fencepost-lib.sidecar" -}}
- {{- include "fencepost-lib.container" . | nindent 2 }}
  restartPolicy: Always
  lifecycle:
    preStop: { exec: { command: [/nodejs/bin/node, --eval, "process.kill(1, 'SIGUSR2')"] } }
{{- end }}

{{- define "fencepost-lib.container" -}}
name: fencepost
image: {{ include "fencepost-lib.image" .image | quote }}
imagePullPolicy: {{ .image.pullPolicy | default "IfNotPresent" }}
env:
  {{- include "fencepost-lib.env" . | nindent 2 }}
ports:
  {{- if .upstream }}
  - { name: fencepost, containerPort: 8080 }
  {{- end }}
  {{- if .shared }}
  - { name: fp-api, containerPort: 8081 }
  - { name: fp-gateway, containerPort: 8082 }
  - { name: fp-gateway-grpc, containerPort: 8083 }
  {{- end }}
  {{- if dig "tlsSecret" "" (.operator | default dict) }}
  - { name: fp-operator, containerPort: {{ include "fencepost-lib.operatorPort" . }} }
  {{- end }}
  - { name: fp-admin, containerPort: 9090 }
{{- $probes := .probes | default dict }}
startupProbe:
  httpGet: { path: /startupz, port: fp-admin }
  {{- merge dict ($probes.startup | default dict) (dict "periodSeconds" 1 "failureThreshold" 30) | toYaml | nindent 2 }}
readinessProbe:
  httpGet: { path: /readyz, port: fp-admin }
  {{- merge dict ($probes.readiness | default dict) (dict "periodSeconds" 5 "timeoutSeconds" 2 "failureThreshold" 3) | toYaml | nindent 2 }}
livenessProbe:
  httpGet: { path: /livez, port: fp-admin }
  {{- merge dict ($probes.liveness | default dict) (dict "periodSeconds" 10 "timeoutSeconds" 2 "failureThreshold" 6) | toYaml | nindent 2 }}
resources:
  {{- toYaml .resources | nindent 2 }}
securityContext:
  {{- if .securityContext }}
  {{- toYaml .securityContext | nindent 2 }}
  {{- else }}
  {{- include "fencepost-lib.securityContext" . | nindent 2 }}
  {{- end }}
{{- with include "fencepost-lib.volumeMounts" . }}
volumeMounts:
  {{- . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.image" -}}
{{- $repository := .repository }}
{{- if .registry }}{{ $repository = printf "%s/%s" .registry .repository }}{{ end }}
{{- if .digest }}{{ printf "%s@%s" $repository .digest }}{{ else }}{{ printf "%s:%s" $repository (.tag | toString) }}{{ end }}
{{- end }}

{{- define "fencepost-lib.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
capabilities: { drop: [ALL] }
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* A list of nodes, or groups of them by name. */}}
{{- define "fencepost-lib.nodes" -}}
{{- if kindIs "map" . }}
{{- $groups := list }}
{{- range $name, $nodes := . }}{{ $groups = append $groups (printf "%s=%s" $name (join "," $nodes)) }}{{ end }}
{{- join ";" $groups }}
{{- else }}{{ join "," . }}{{ end }}
{{- end }}

{{- define "fencepost-lib.env" -}}
{{- include "fencepost-lib.check" . }}
- name: FENCEPOST_INSTANCE
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
{{- if .nodesFrom }}
- {{- include "fencepost-lib.nodesFrom" .nodesFrom | nindent 2 }}
{{- else }}
- { name: FENCEPOST_REDIS_NODES, value: {{ include "fencepost-lib.nodes" .nodes | quote }} }
{{- end }}
{{- if .redisUsername }}
- { name: FENCEPOST_REDIS_USERNAME, value: {{ .redisUsername | quote }} }
{{- end }}
{{- if .redisPasswordSecret }}
- { name: FENCEPOST_REDIS_PASSWORD_FILE, value: /etc/fencepost/redis/password }
{{- end }}
{{- if .redisCaSecret }}
- { name: FENCEPOST_REDIS_CA_FILE, value: /etc/fencepost/redis-ca/ca.crt }
{{- end }}
{{- if .redisCertSecret }}
- { name: FENCEPOST_REDIS_CERT_FILE, value: /etc/fencepost/redis-cert/tls.crt }
- { name: FENCEPOST_REDIS_KEY_FILE, value: /etc/fencepost/redis-cert/tls.key }
{{- end }}
{{- /* The program's own defaults are 0.0.0.0. */}}
{{- if eq (.listenHost | default "") "[::]" }}
- { name: FENCEPOST_ADMIN_LISTEN, value: "[::]:9090" }
{{- if and .upstream (not (hasKey (.settings | default dict) "FENCEPOST_PROXY_LISTEN")) }}
- { name: FENCEPOST_PROXY_LISTEN, value: "[::]:8080" }
{{- end }}
{{- end }}
{{- if .upstream }}
- { name: FENCEPOST_UPSTREAM, value: {{ .upstream | quote }} }
{{- else }}
- { name: FENCEPOST_PROXY_LISTEN, value: "off" }
{{- end }}
{{- if .shared }}
{{- $host := .listenHost | default "0.0.0.0" }}
- { name: FENCEPOST_API_LISTEN, value: "{{ $host }}:8081" }
- { name: FENCEPOST_GATEWAY_LISTEN, value: "{{ $host }}:8082" }
- { name: FENCEPOST_GATEWAY_GRPC_LISTEN, value: "{{ $host }}:8083" }
{{- end }}
{{- if .apiTokenSecret }}
- { name: FENCEPOST_API_TOKEN_FILE, value: /etc/fencepost/api/token }
{{- end }}
{{- include "fencepost-lib.operatorEnv" . }}
{{- if .configMap }}
- { name: FENCEPOST_CONFIG, value: /etc/fencepost/config/fencepost.yaml }
{{- end }}
{{- $table := include "fencepost-lib.settingsTable" . | fromJson }}
{{- range $name, $value := .settings }}
- { name: {{ $name }}, value: {{ include "fencepost-lib.settingText" (dict "value" $value "row" (get $table $name)) | quote }} }
{{- end }}
{{- range $name, $file := .secretFiles }}
- { name: {{ $name }}, value: {{ printf "/etc/fencepost/files/%s/%s" (include "fencepost-lib.volumeOf" $name) $file.key | quote }} }
{{- end }}
{{- end }}

{{/* A value as it was written: Helm would print the number 1000000 as 1e+06, which no setting takes. */}}
{{- define "fencepost-lib.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{- define "fencepost-lib.volumeOf" -}}{{ . | lower | replace "_" "-" }}{{- end }}

{{- define "fencepost-lib.volumeMounts" -}}
{{- if .redisPasswordSecret }}
- { name: fencepost-redis-password, mountPath: /etc/fencepost/redis, readOnly: true }
{{- end }}
{{- if .redisCaSecret }}
- { name: fencepost-redis-ca, mountPath: /etc/fencepost/redis-ca, readOnly: true }
{{- end }}
{{- if .redisCertSecret }}
- { name: fencepost-redis-cert, mountPath: /etc/fencepost/redis-cert, readOnly: true }
{{- end }}
{{- if .apiTokenSecret }}
- { name: fencepost-api-token, mountPath: /etc/fencepost/api, readOnly: true }
{{- end }}
{{- include "fencepost-lib.operatorVolumeMounts" . }}
{{- if .configMap }}
- { name: fencepost-config, mountPath: /etc/fencepost/config, readOnly: true }
{{- end }}
{{- range $name, $file := .secretFiles }}
{{- $volume := include "fencepost-lib.volumeOf" $name }}
- { name: {{ $volume }}, mountPath: /etc/fencepost/files/{{ $volume }}, readOnly: true }
{{- end }}
{{- end }}

{{- define "fencepost-lib.volumes" -}}
{{- if .redisPasswordSecret }}
- { name: fencepost-redis-password, secret: { secretName: {{ .redisPasswordSecret | quote }}, items: [{ key: password, path: password }] } }
{{- end }}
{{- if .redisCaSecret }}
- { name: fencepost-redis-ca, secret: { secretName: {{ .redisCaSecret | quote }}, items: [{ key: ca.crt, path: ca.crt }] } }
{{- end }}
{{- if .redisCertSecret }}
- { name: fencepost-redis-cert, secret: { secretName: {{ .redisCertSecret | quote }}, items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }] } }
{{- end }}
{{- if .apiTokenSecret }}
- { name: fencepost-api-token, secret: { secretName: {{ .apiTokenSecret | quote }}, items: [{ key: token, path: token }] } }
{{- end }}
{{- include "fencepost-lib.operatorVolumes" . }}
{{- if .configMap }}
- { name: fencepost-config, configMap: { name: {{ .configMap | quote }} } }
{{- end }}
{{- range $name, $file := .secretFiles }}
- { name: {{ include "fencepost-lib.volumeOf" $name }}, secret: { secretName: {{ $file.secret | quote }}, items: [{ key: {{ $file.key | quote }}, path: {{ $file.key | quote }} }] } }
{{- end }}
{{- end }}

{{/* For the application: where the reservation API of its own sidecar is. */}}
{{- define "fencepost-lib.appEnv" -}}
- { name: FENCEPOST_URL, value: "http://127.0.0.1:8081" }
{{- end }}
