{{/*
The operator listener of a sidecar (docs/operations/one-key.md). Takes `operator`: `tokensSecret`, a Secret with the key `tokens`, one person
or tool a line; and `tlsSecret`, a Secret with `tls.crt` and `tls.key`. Without a certificate it listens in the pod alone, where
`kubectl port-forward` reaches it, because tokens are never sent in clear text.
*/}}

{{- define "fencepost-lib.operatorPort" -}}8084{{- end }}

{{- define "fencepost-lib.operatorEnv" -}}
{{- with .operator }}
- { name: FENCEPOST_OPERATOR_LISTEN, value: "{{ ternary ($.listenHost | default "0.0.0.0") "127.0.0.1" (not (empty .tlsSecret)) }}:{{ include "fencepost-lib.operatorPort" . }}" }
- { name: FENCEPOST_OPERATOR_TOKENS_FILE, value: /etc/fencepost/operator/tokens }
{{- if .tlsSecret }}
- { name: FENCEPOST_TLS_LISTENERS, value: operator }
- { name: FENCEPOST_TLS_CERT_FILE, value: /etc/fencepost/operator-tls/tls.crt }
- { name: FENCEPOST_TLS_KEY_FILE, value: /etc/fencepost/operator-tls/tls.key }
{{- end }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.operatorVolumeMounts" -}}
{{- with .operator }}
- { name: fencepost-operator, mountPath: /etc/fencepost/operator, readOnly: true }
{{- if .tlsSecret }}
- { name: fencepost-operator-tls, mountPath: /etc/fencepost/operator-tls, readOnly: true }
{{- end }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.operatorVolumes" -}}
{{- with .operator }}
- { name: fencepost-operator, secret: { secretName: {{ .tokensSecret | quote }}, items: [{ key: tokens, path: tokens }] } }
{{- if .tlsSecret }}
- { name: fencepost-operator-tls, secret: { secretName: {{ .tlsSecret | quote }}, items: [{ key: tls.crt, path: tls.crt }, { key: tls.key, path: tls.key }] } }
{{- end }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.operatorFaults" -}}
{{- if and (not (kindIs "invalid" .operator)) (not (kindIs "map" .operator)) }}
{{ printf "operator is %s: it takes tokensSecret, and tlsSecret where it is reached from beyond the pod." (toJson .operator) }}
{{- else if .operator }}
{{- range $name, $value := .operator }}
{{- if not (has $name (list "tokensSecret" "tlsSecret")) }}
{{ printf "operator.%s is given: the members are tokensSecret and tlsSecret." $name }}
{{- else if not (kindIs "string" $value) }}
{{ printf "operator.%s is %s: it takes the name of a Secret." $name (toJson $value) }}
{{- end }}
{{- end }}
{{- if not .operator.tokensSecret }}
{{ printf "operator.tokensSecret is empty: name a Secret with the key tokens, one person or tool a line, `name role token`." }}
{{- end }}
{{- if eq (toJson .nodes) "[\"embedded\"]" }}
{{ printf "operator is given with embedded nodes, which keep no audit log: use Redis nodes, or leave it out." }}
{{- end }}
{{- end }}
{{- end }}
