{{/*
What the parts refuse when Helm renders, each with a sentence: unknown members, missing ones, and settings that fencepost would not start
with. All faults are said at once. Owns no knowledge of a setting: that is in _settings.tpl, which is written from the settings themselves.
*/}}

{{/* Fails where anything is wrong. Takes what the parts take. */}}
{{- define "fencepost-lib.check" -}}
{{- $faults := include "fencepost-lib.memberFaults" . }}
{{- $faults = printf "%s%s" $faults (include "fencepost-lib.settingFaults" (dict "settings" .settings "secretFiles" .secretFiles)) }}
{{- $faults = printf "%s%s" $faults (include "fencepost-lib.ownFaults" .) }}
{{- with $faults | trim }}{{ fail (printf "fencepost-lib refuses what it is given:\n%s" .) }}{{ end }}
{{- end }}

{{- define "fencepost-lib.memberFaults" -}}
{{- $members := list "image" "nodes" "nodesFrom" "upstream" "redisUsername" "redisPasswordSecret" "redisCaSecret" "redisCertSecret" "apiTokenSecret" "configMap" "settings" "secretFiles" "resources" "securityContext" "probes" "listenHost" "operator" "shared" }}
{{- range $name, $_ := . }}
{{- if not (has $name $members) }}
{{ printf "%s is given, which no part takes: the members are %s." $name (join ", " $members) }}
{{- end }}
{{- end }}
{{- range $name := list "upstream" "redisUsername" "redisPasswordSecret" "redisCaSecret" "redisCertSecret" "apiTokenSecret" "configMap" }}
{{- $value := index $ $name }}
{{- if and (not (kindIs "invalid" $value)) (not (kindIs "string" $value)) }}
{{ printf "%s is %s: it takes text." $name (toJson $value) }}
{{- end }}
{{- end }}
{{- if and .listenHost (not (has .listenHost (list "0.0.0.0" "[::]"))) }}
{{ printf "listenHost is %s: it takes 0.0.0.0, or [::] where pods have IPv6 addresses." (toJson .listenHost) }}
{{- end }}
{{- include "fencepost-lib.imageFaults" (.image | default dict) }}
{{- include "fencepost-lib.nodeFaults" . }}
{{- include "fencepost-lib.operatorFaults" . }}
{{- $requests := dig "requests" "memory" "" (.resources | default dict) }}
{{- $limits := dig "limits" "memory" "" (.resources | default dict) }}
{{- if not (and $requests $limits) }}
{{ printf "resources has no requests.memory or no limits.memory: give both, such as 192Mi and 384Mi. A pod without them is the first to be evicted." }}
{{- end }}
{{- if dig "limits" "cpu" "" (.resources | default dict) }}
{{ printf "resources.limits.cpu is %s: leave it out. A sidecar that is throttled misses renewals of its leases, and what it protects is executed twice." (dig "limits" "cpu" "" .resources | toString) }}
{{- end }}
{{- end }}

{{/* Settings that a part gives already: a container may not have one variable twice. */}}
{{- define "fencepost-lib.ownFaults" -}}
{{- $own := dict "FENCEPOST_INSTANCE" "the name of the pod" "FENCEPOST_REDIS_NODES" "nodes or nodesFrom" "FENCEPOST_ADMIN_LISTEN" "the port of its probes and listenHost" }}
{{- range $member, $name := dict "redisUsername" "FENCEPOST_REDIS_USERNAME" "redisPasswordSecret" "FENCEPOST_REDIS_PASSWORD_FILE" "redisCaSecret" "FENCEPOST_REDIS_CA_FILE" "upstream" "FENCEPOST_UPSTREAM" "apiTokenSecret" "FENCEPOST_API_TOKEN_FILE" "configMap" "FENCEPOST_CONFIG" }}
{{- if index $ $member }}{{ $_ := set $own $name $member }}{{ end }}
{{- end }}
{{- if .redisCertSecret }}
{{- range $name := list "FENCEPOST_REDIS_CERT_FILE" "FENCEPOST_REDIS_KEY_FILE" }}{{ $_ := set $own $name "redisCertSecret" }}{{ end }}
{{- end }}
{{- if not .upstream }}{{ $_ := set $own "FENCEPOST_PROXY_LISTEN" "upstream, without which the proxy is off" }}{{ end }}
{{- if and .operator (kindIs "map" .operator) }}
{{- range $name := list "FENCEPOST_OPERATOR_LISTEN" "FENCEPOST_OPERATOR_TOKENS_FILE" }}{{ $_ := set $own $name "operator" }}{{ end }}
{{- if .operator.tlsSecret }}
{{- range $name := list "FENCEPOST_TLS_LISTENERS" "FENCEPOST_TLS_CERT_FILE" "FENCEPOST_TLS_KEY_FILE" }}{{ $_ := set $own $name "operator.tlsSecret" }}{{ end }}
{{- end }}
{{- end }}
{{- if .shared }}
{{- range $name := list "FENCEPOST_API_LISTEN" "FENCEPOST_GATEWAY_LISTEN" "FENCEPOST_GATEWAY_GRPC_LISTEN" }}{{ $_ := set $own $name "shared" }}{{ end }}
{{- end }}
{{- range $name, $by := $own }}
{{- if hasKey ($.settings | default dict) $name }}
{{ printf "settings.%s is given, and the part sets it already, by %s: leave it out." $name $by }}
{{- end }}
{{- if hasKey ($.secretFiles | default dict) $name }}
{{ printf "secretFiles.%s is given, and the part sets it already, by %s: leave it out." $name $by }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.imageFaults" -}}
{{- if not .repository }}
{{ printf "image.repository is empty: name the image, such as fencepost/fencepost." }}
{{- end }}
{{- if not (or .tag .digest) }}
{{ printf "image has neither tag nor digest: give one of them." }}
{{- end }}
{{- if and .tag (not (kindIs "string" .tag)) }}
{{ printf "image.tag is the number %s: put it in quotes, or 1.10 becomes 1.1." (toString .tag) }}
{{- end }}
{{- if eq (toString .tag) "latest" }}
{{ printf "image.tag is latest: two pods could then run two versions. Name a version or a digest." }}
{{- end }}
{{- if and .digest (not (regexMatch "^sha256:[0-9a-f]{64}$" (toString .digest))) }}
{{ printf "image.digest is %s: it is sha256: and 64 hex digits." (toString .digest) }}
{{- end }}
{{- range $name, $_ := . }}
{{- if not (has $name (list "registry" "repository" "tag" "digest" "pullPolicy" "pullSecrets")) }}
{{ printf "image.%s is given: the members are registry, repository, tag, digest and pullPolicy." $name }}
{{- end }}
{{- end }}
{{- end }}

{{- define "fencepost-lib.nodeFaults" -}}
{{- with .nodesFrom }}
{{- $keys := keys . | sortAlpha | join "," }}
{{- if not (has $keys (list "configMap,key" "key,secret")) }}
{{ printf "nodesFrom has %s: it takes configMap or secret, and key." ($keys | default "nothing") }}
{{- end }}
{{- end }}
{{- if and .nodes .nodesFrom }}
{{ printf "nodes and nodesFrom are both given: leave one of them out." }}
{{- else if not (or .nodes .nodesFrom) }}
{{ printf "nodes is empty: name 3, 5, 7 or 9 independent nodes, or where they stand with nodesFrom." }}
{{- end }}
{{- $lists := dict "nodes" .nodes }}
{{- if kindIs "map" .nodes }}
{{- $lists = dict }}
{{- range $name, $nodes := .nodes }}{{ $_ := set $lists (printf "nodes.%s" $name) $nodes }}{{ end }}
{{- end }}
{{- range $name, $nodes := $lists }}
{{- if and $nodes (not (kindIs "slice" $nodes)) }}
{{ printf "%s is %s: it takes a list." $name (toJson $nodes) }}
{{- else if and $nodes (ne (toJson $nodes) "[\"embedded\"]") }}
{{- if not (has (len $nodes) (list 3 5 7 9)) }}
{{ printf "%s has %d entries: name 3, 5, 7 or 9 independent nodes." $name (len $nodes) }}
{{- end }}
{{- range $node := $nodes }}
{{- if not (regexMatch "^rediss?://[^@\\s]+$" (toString $node)) }}
{{ printf "%s has an entry that is no redis:// or rediss:// URL without user and password: these are redisUsername and redisPasswordSecret." $name }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Takes settings and secretFiles. */}}
{{- define "fencepost-lib.settingFaults" -}}
{{- $table := include "fencepost-lib.settingsTable" . | fromJson }}
{{- $others := include "fencepost-lib.namesOfOthers" . | fromJsonArray }}
{{- range $name, $value := .settings }}
{{- $row := get $table $name }}
{{- if $row }}
{{- with include "fencepost-lib.settingFault" (dict "name" (printf "settings.%s" $name) "value" $value "row" $row) }}
{{ . }}
{{- end }}
{{- else if not (or (hasPrefix "OTEL_" $name) (eq $name "NODE_OPTIONS") (has $name $others)) }}
{{ printf "settings.%s is given, and fencepost has no such setting: docs/reference/configuration.md has them all." $name }}
{{- end }}
{{- end }}
{{- range $name, $file := .secretFiles }}
{{- if hasKey ($.settings | default dict) $name }}
{{ printf "settings.%s and secretFiles.%s are both given: the file is mounted by the second, leave the first out." $name $name }}
{{- end }}
{{- if not (and (hasSuffix "_FILE" $name) (hasKey $table $name)) }}
{{ printf "secretFiles.%s is given, and fencepost has no setting of this name that names a file." $name }}
{{- end }}
{{- if not (and (kindIs "map" $file) (eq (keys ($file | default dict) | sortAlpha | join ",") "key,secret")) }}
{{ printf "secretFiles.%s is %s: it takes secret and key." $name (toJson $file) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Of the file of settings: what its JSON Schema can't say. Takes config. */}}
{{- define "fencepost-lib.configFaults" -}}
{{- $config := .config }}
{{- range $name, $row := include "fencepost-lib.settingsTable" . | fromJson }}
{{- $group := index (splitList "." $row.path) 0 }}
{{- $values := get $config $group }}
{{- if and (contains "." $row.path) (kindIs "map" $values) (has $row.kind (list "duration" "size" "integer")) }}
{{- $member := index (splitList "." $row.path) 1 }}
{{- if hasKey $values $member }}
{{- with include "fencepost-lib.settingFault" (dict "name" (printf "config.%s" $row.path) "value" (get $values $member) "row" $row) }}
{{ . }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* A sentence, or nothing. Takes name, value and the row of the table. */}}
{{- define "fencepost-lib.settingFault" -}}
{{- if include "fencepost-lib.isAltered" . }}
{{- printf "%s is the %s %s: put it in quotes (--set-string), or it is not what you wrote." .name (ternary "switch" "number" (kindIs "bool" .value)) (toJson .value) }}
{{- else }}
{{- $text := include "fencepost-lib.settingText" . }}
{{- $good := regexMatch .row.pattern $text }}
{{- if and $good (has .row.kind (list "duration" "size" "integer")) }}
{{- $amount := include "fencepost-lib.amount" $text | int64 }}
{{- $good = and (ge $amount (int64 .row.min)) (le $amount (int64 .row.max)) }}
{{- end }}
{{- if and $good (eq .row.kind "fraction") }}
{{- if contains "/" $text }}
{{- $good = le (index (splitList "/" $text) 0 | int64) (index (splitList "/" $text) 1 | int64) }}
{{- else }}
{{- $good = le (float64 $text) 1.0 }}
{{- end }}
{{- end }}
{{- if not $good }}{{ printf "%s is %s: accepted is %s." .name (toJson $text) .row.accepts }}{{ end }}
{{- end }}
{{- end }}

{{/*
Whether YAML has made another thing of a text before it gets here: 1.10 has lost its zero, 007 is 7, and no, the country, is false.
Takes value and the row of the table.
*/}}
{{- define "fencepost-lib.isAltered" -}}
{{- $isText := has .row.kind (list "pattern" "text") }}
{{- $isSwitch := or (eq .row.pattern "^(on|off)$") (and (regexMatch "\\boff\\b" .row.accepts) (eq (toJson .value) "false")) }}
{{- if or (and (kindIs "bool" .value) $isText (not $isSwitch)) (and $isText (has (kindOf .value) (list "float64" "int64" "int"))) }}true{{ end }}
{{- end }}

{{/* A setting as fencepost reads it: YAML knows on and off as true and false. Takes value and the row of the table, where it has one. */}}
{{- define "fencepost-lib.settingText" -}}
{{- if and .row (kindIs "bool" .value) }}{{ ternary "on" "off" .value }}{{ else }}{{ include "fencepost-lib.text" .value }}{{ end }}
{{- end }}

{{/* 30s, 256KiB or 7 in its smallest unit. */}}
{{- define "fencepost-lib.amount" -}}
{{- $units := dict "" 1 "ms" 1 "s" 1000 "m" 60000 "h" 3600000 "d" 86400000 "B" 1 "KiB" 1024 "MiB" 1048576 "GiB" 1073741824 }}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[A-Za-z]*$" .) | int64) }}
{{- end }}

{{/* The value of a setting as fencepost reads it. Takes name, settings and config. */}}
{{- define "fencepost-lib.settingValue" -}}
{{- $row := include "fencepost-lib.settingsTable" . | fromJson | dig .name dict }}
{{- $value := $row.default | default "" }}
{{- $path := splitList "." $row.path }}
{{- $group := get (.config | default dict) (index $path 0) }}
{{- if and (gt (len $path) 1) (kindIs "map" $group) }}
{{- if hasKey $group (index $path 1) }}{{ $value = get $group (index $path 1) }}{{ end }}
{{- end }}
{{- if hasKey (.settings | default dict) .name }}{{ $value = get .settings .name }}{{ end }}
{{- include "fencepost-lib.text" $value }}
{{- end }}
