{{/* The variable with the nodes, where they stand in a ConfigMap or Secret. Takes nodesFrom. */}}
{{- define "fencepost-lib.nodesFrom" -}}
name: FENCEPOST_REDIS_NODES
valueFrom:
  {{ ternary "secretKeyRef" "configMapKeyRef" (hasKey . "secret") }}: { name: {{ .secret | default .configMap }}, key: {{ .key }} }
{{- end }}

{{/*
Of the pod: what stands in the ConfigMaps and Secrets that it is given, as a checksum, so that `helm upgrade` replaces the pods when one
of them has changed. Takes `fencepost`, what the other parts take, and `namespace`. Without a cluster, as in `helm template`, there is
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
fencepost.dev/given: {{ toJson $found | sha256sum }}
{{- end }}
