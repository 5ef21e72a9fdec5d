{{/* Of every object. */}}
{{- define "fencepost.labels" -}}
{{- include "fencepost.labelsAnd" (dict "of" . "more" dict) }}
{{- end }}

{{/* Those, and `more` of one kind of object. One mapping: a key that is given for both stands there once, as it is given for the kind. */}}
{{- define "fencepost.labelsAnd" -}}
{{- $own := dict "app.kubernetes.io/part-of" "fencepost" "app.kubernetes.io/managed-by" .of.Release.Service
  "helm.sh/chart" (include "fencepost.asLabel" (printf "%s-%s" .of.Chart.Name .of.Chart.Version))
  "app.kubernetes.io/version" (include "fencepost.asLabel" .of.Chart.AppVersion) }}
{{- merge dict (.more | default dict) (.of.Values.commonLabels | default dict) $own | toYaml }}
{{- end }}

{{/* A version may have a commit behind it, 0.1.0+4a5b6c7; a label takes no plus, and 63 characters. */}}
{{- define "fencepost.asLabel" -}}
{{- regexReplaceAll "[^A-Za-z0-9]+$" (replace "+" "_" . | trunc 63) "" }}
{{- end }}

{{/* The name of its objects, in quotes wherever it stands alone: a release may be called on, no or null. In a chart of charts give each a fullnameOverride: all of them have one release. */}}
{{- define "fencepost.fullname" -}}{{ .Values.fullnameOverride | default .Release.Name }}{{- end }}

{{- define "fencepost.selector" -}}
app.kubernetes.io/name: fencepost
app.kubernetes.io/instance: {{ include "fencepost.fullname" . | quote }}
{{- end }}

{{- define "fencepost.nodesSelector" -}}
app.kubernetes.io/name: fencepost-redis
app.kubernetes.io/instance: {{ include "fencepost.fullname" . | quote }}
{{- end }}

{{/* Shortened before the ending, not with it: it must differ from the name of the release, and not end with a dash. */}}
{{- define "fencepost.nodesName" -}}{{ printf "%s-redis" (include "fencepost.fullname" . | trunc 44 | trimSuffix "-") }}{{- end }}

{{/* As the library takes it. The version is not among the defaults, which `helm upgrade --reuse-values` would keep of the chart before. */}}
{{- define "fencepost.image" -}}
{{- merge (dict "tag" (.Values.image.tag | default .Chart.AppVersion)) .Values.image | toYaml }}
{{- end }}

{{- define "fencepost.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Of the service. Where an autoscaler decides, those that there are, within its bounds: Helm takes a number away that it wrote before and does not write
again, and a Deployment without one has one pod. Without a cluster there is nothing to look up, and no number.
*/}}
{{- define "fencepost.replicas" -}}
{{- with .Values.service }}
{{- if not .autoscaling.enabled }}{{ .replicas }}
{{- else }}
{{- with lookup "apps/v1" "Deployment" $.Release.Namespace (include "fencepost.fullname" $) }}
{{- $scaled := $.Values.service.autoscaling }}
{{- int .spec.replicas | max (int $scaled.minReplicas) | min (int $scaled.maxReplicas) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Member `are` of the YAML: a list, or lists by the names of groups. */}}
{{- define "fencepost.nodes" -}}
{{- $nodes := .Values.redis.nodes }}
{{- with .Values.redis.groups }}{{ $nodes = . }}{{ end }}
{{- if eq .Values.redis.mode "embedded" }}{{ $nodes = list "embedded" }}{{ end }}
{{- if eq .Values.redis.mode "bundled" }}
{{- $nodes = list }}
{{- $name := include "fencepost.nodesName" . }}
{{- range $index := until (int .Values.redis.bundled.count) }}
{{- $scheme := ternary "rediss" "redis" (not (empty $.Values.redis.bundled.tlsSecret)) }}
{{- $nodes = append $nodes (printf "%s://%s-%d.%s.%s.svc:6379" $scheme $name $index $name $.Release.Namespace) }}
{{- end }}
{{- end }}
{{- dict "are" $nodes | toYaml }}
{{- end }}

{{/* What the library's parts take, from the values of this chart. */}}
{{- define "fencepost.sidecarValues" -}}
{{- include "fencepost.guards" . }}
{{- $nodes := (include "fencepost.nodes" . | fromYaml).are }}
{{- $settings := merge (dict "FENCEPOST_ON_QUORUM_LOSS" .Values.failureMode) (.Values.settings | default dict) }}
{{- if .Values.operator.enabled }}
{{- $settings = merge $settings (dict "FENCEPOST_RUNBOOK_URL" .Values.prometheusRule.runbookUrl) }}
{{- end }}
{{- toYaml (dict "image" (include "fencepost.image" . | fromYaml) "nodes" $nodes "shared" true "redisUsername" .Values.redis.username
  "operator" (ternary (dict "tokensSecret" .Values.operator.tokensSecret "tlsSecret" .Values.operator.tlsSecret) dict .Values.operator.enabled)
  "redisPasswordSecret" .Values.redis.passwordSecret "redisCaSecret" .Values.redis.caSecret "redisCertSecret" .Values.redis.certSecret
  "apiTokenSecret" .Values.service.tokenSecret "configMap" (ternary (include "fencepost.fullname" .) "" (not (empty .Values.config)))
  "settings" $settings "nodesFrom" .Values.redis.nodesFrom "probes" .Values.service.probes "listenHost" .Values.listenHost "securityContext" .Values.securityContext "secretFiles" .Values.secretFiles "resources" .Values.resources) }}
{{- end }}

{{/* The rules with the values of this release. In the file a threshold's name stands behind its number, as a comment. */}}
{{- define "fencepost.rules" -}}
{{- $rules := .Files.Get "files/dashboards/rules/fencepost.rules.yaml" }}
{{- with .Values.prometheusRule }}
{{- range $name, $value := .thresholds }}
{{- $rules = regexReplaceAll (printf "[0-9.]+( # %s\\b)" $name) $rules (printf "%v${1}" $value) }}
{{- $rules = regexReplaceAll (printf "\\{\\{ [0-9.]+( \\| \\w+ \\}\\}\\{\\{/\\* %s \\*/)" $name) $rules (printf "{{ %v${1}" $value) }}
{{- end }}
{{- $labels := "" }}
{{- range $name, $value := .extraLabels }}
{{- $labels = printf "%s%s: %s, " $labels $name (toJson $value) }}
{{- end }}
{{- $rules = replace "labels: {severity: " (printf "labels: {%sseverity: " $labels) $rules }}
{{- $rules = replace "https://fencepost.dev/runbooks#" (printf "%s#" .runbookUrl) $rules }}
{{- $rules = replace "dashboard_url: /d/" (printf "dashboard_url: %s/d/" .grafanaUrl) $rules }}
{{- end }}
{{- with include "fencepost.operatorUrl" . }}
{{- /* No regular expression: the address may have a dollar sign. */}}
{{- $indent := "\n          " }}
{{- $rules = replace (printf "%sdashboard_url: " $indent) (printf "%soperator_url: %s%sdashboard_url: " $indent . $indent) $rules }}
{{- end }}
{{- $rules }}
{{- end }}

{{/* Where operators decide about one record; empty where nobody says it. */}}
{{- define "fencepost.operatorUrl" -}}
{{- with .Values.operator }}
{{- $ingress := ternary (printf "https://%s" .ingress.host) "" (and .enabled .ingress.enabled) }}
{{- $.Values.prometheusRule.operatorUrl | default $ingress }}
{{- end }}
{{- end }}
