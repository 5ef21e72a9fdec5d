{{/* The variable with the nodes, where they stand in a ConfigMap or Secret. Takes nodesFrom. */}}
{{- define "fencepost-lib.nodesFrom" -}}
name: FENCEPOST_REDIS_NODES
valueFrom:
  {{ ternary "secretKeyRef" "configMapKeyRef" (hasKey . "secret") }}: { name: {{ .secret | default .configMap | quote }}, key: {{ .key | quote }} }
{{- end }}

{{/*
Of the pod: what stands in the Secrets that it is given, and where its nodes stand, as a checksum, so that `helm upgrade` replaces the pods when
one of them has changed. Not what is read again while it runs (the tokens, the certificate for the nodes). Nor `configMap`: that is mostly an object of the same chart, and
Helm would look up what it was before the upgrade. Takes `fencepost`, what the other parts take, and `namespace`. Without a cluster, as in `helm template`, there is
nothing to look up: there the checksum is that of the names, and a controller that watches Secrets has to roll the pods.
*/}}
{{- define "fencepost-lib.podAnnotations" -}}
{{- $found := list }}
{{- $namespace := .namespace }}
{{- with .fencepost.nodesFrom }}
{{- $kind := ternary "Secret" "ConfigMap" (hasKey . "secret") }}
{{- $object := lookup "v1" $kind $namespace (.secret | default .configMap) | default dict }}
{{- $found = append $found (list .secret .configMap .key (dig "data" .key "" $object)) }}
{{- end }}
{{- with .fencepost.redisCaSecret }}
{{- $object := lookup "v1" "Secret" $namespace . | default dict }}
{{- $found = append $found (list . (dig "data" "ca.crt" "" $object)) }}
{{- end }}
{{- with .fencepost.redisPasswordSecret }}
{{- $object := lookup "v1" "Secret" $namespace . | default dict }}
{{- $found = append $found (list . (dig "data" "password" "" $object)) }}
{{- end }}
{{- /* An incomplete one is refused by the check of the container, with a sentence. */}}
{{- range $name, $file := .fencepost.secretFiles }}
{{- if and (kindIs "map" $file) (dig "secret" "" $file) (dig "key" "" $file) }}
{{- $object := lookup "v1" "Secret" $namespace $file.secret | default dict }}
{{- $found = append $found (list $name $file.secret $file.key (dig "data" $file.key "" $object)) }}
{{- end }}
{{- end }}
fencepost.dev/given: {{ toJson $found | sha256sum }}
{{- end }}
