{{- /* What the schema can't say. Each sentence names the value, what it is, and what to do. */ -}}
{{- define "fencepost.guards" -}}
{{- include "fencepost.missingGuard" . }}
{{- if and (or .Values.service.enabled (eq .Values.redis.mode "bundled")) (not (regexMatch "^[a-z]([-a-z0-9]*[a-z0-9])?$" (include "fencepost.fullname" .))) }}
{{- fail (printf "the release is named %s, and so would be its Service: Kubernetes takes a name of lower-case letters, digits and dashes that begins with a letter, without dots (DNS-1035). Choose another name for the release." .Release.Name) }}
{{- end }}
{{- if and .Values.injection.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "injection.enabled is true, and the cluster has Kubernetes %s: its policy needs 1.36. Leave it off, and use the library chart fencepost-lib." .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if and .Values.injection.enabled .Values.redis.nodesFrom }}
{{- fail "injection.enabled is true with redis.nodesFrom: a pod can't read the ConfigMap or Secret of another namespace. Give redis.nodes." }}
{{- end }}
{{- if and .Values.probe.enabled (eq .Values.redis.mode "embedded") }}
{{- fail "probe.enabled is true with redis.mode embedded: the probe would ask nodes of its own, and prove nothing about those of your applications. Use bundled or external nodes." }}
{{- end }}
{{- if and .Values.injection.enabled (eq .Values.redis.mode "embedded") }}
{{- fail "injection.enabled is true with redis.mode embedded: each pod would decide by itself, and nothing would be deduplicated between them. Use bundled or external nodes." }}
{{- end }}
{{- include "fencepost.filesGuard" . }}
{{- include "fencepost.lostNodesGuard" . }}
{{- include "fencepost.operatorGuards" .Values }}
{{- include "fencepost.imageGuards" .Values }}
{{- include "fencepost.sizesGuard" .Values }}
{{- $settings := .Values.settings | default dict }}
{{- $secretFiles := .Values.secretFiles | default dict }}
{{- $config := .Values.config | default dict }}
{{- with .Values }}
{{- if and .redis.nodesFrom (ne .redis.mode "external") }}
{{- fail (printf "redis.nodesFrom is given with redis.mode %s: set redis.mode to external, or leave it out." .redis.mode) }}
{{- end }}
{{- if and .redis.nodesFrom (or .redis.nodes .redis.groups) }}
{{- fail "redis.nodesFrom and redis.nodes or redis.groups are both given: leave one of them out." }}
{{- end }}
{{- if and (eq .redis.mode "external") (not .redis.groups) (not .redis.nodesFrom) (lt (len (.redis.nodes | default list)) 3) }}
{{- fail (printf "redis.nodes has %d entries with redis.mode external: name 3, 5, 7 or 9 independent nodes." (len (.redis.nodes | default list))) }}
{{- end }}
{{- if and (eq .redis.mode "external") (not .redis.groups) (not .redis.nodesFrom) (eq (mod (len (.redis.nodes | default list)) 2) 0) }}
{{- fail (printf "redis.nodes has %d entries: half of an even number decides nothing, name an odd number." (len .redis.nodes)) }}
{{- end }}
{{- if and (ne .redis.mode "external") .redis.nodes }}
{{- fail (printf "redis.nodes is given with redis.mode %s: set redis.mode to external, or leave the nodes out." .redis.mode) }}
{{- end }}
{{- if and (ne .redis.mode "external") .redis.groups }}
{{- fail (printf "redis.groups is given with redis.mode %s: set redis.mode to external, or leave the groups out." .redis.mode) }}
{{- end }}
{{- if and .redis.nodes .redis.groups }}
{{- fail "redis.nodes and redis.groups are both given: the nodes of each group stand in redis.groups, leave redis.nodes out." }}
{{- end }}
{{- $size := len (first (values (.redis.groups | default dict) | default (list list))) }}
{{- range $name, $nodes := .redis.groups }}
{{- if eq (mod (len $nodes) 2) 0 }}
{{- fail (printf "redis.groups.%s has %d entries: half of an even number decides nothing, name an odd number." $name (len $nodes)) }}
{{- end }}
{{- if ne (len $nodes) $size }}
{{- fail (printf "redis.groups.%s has %d entries and another group has %d: give all groups as many nodes." $name (len $nodes) $size) }}
{{- end }}
{{- end }}
{{- if and (eq .redis.mode "embedded") (or .redis.passwordSecret .redis.username .redis.caSecret .redis.certSecret) }}
{{- fail "redis.username, redis.passwordSecret, redis.caSecret or redis.certSecret is given with redis.mode embedded: there is no node to log in to. Leave them out." }}
{{- end }}
{{- if eq .redis.mode "bundled" }}
{{- if and .redis.bundled.usersSecret (not (and .redis.username .redis.passwordSecret)) }}
{{- fail (printf "redis.bundled.usersSecret is %s: the nodes then take only users of that list. Set redis.username and redis.passwordSecret to one of them." .redis.bundled.usersSecret) }}
{{- end }}
{{- if not (or .redis.bundled.usersSecret .redis.bundled.openToAll) }}
{{- fail "redis.bundled.usersSecret is empty: every pod that reaches the nodes could read and delete records. Name a Secret with users.acl, and redis.username and redis.passwordSecret (the README has the commands); or set redis.bundled.openToAll to true where that is meant." }}
{{- end }}
{{- if and .redis.bundled.usersSecret .redis.bundled.openToAll }}
{{- fail (printf "redis.bundled.openToAll is true and redis.bundled.usersSecret is %s: leave one of them out." .redis.bundled.usersSecret) }}
{{- end }}
{{- if and (not .redis.bundled.usersSecret) (or .redis.username .redis.passwordSecret) }}
{{- fail "redis.username or redis.passwordSecret is given with redis.mode bundled, whose nodes have no users: name a Secret with users.acl in redis.bundled.usersSecret, or leave them out." }}
{{- end }}
{{- if and .redis.bundled.tlsSecret (not .redis.caSecret) }}
{{- fail (printf "redis.caSecret is empty with redis.bundled.tlsSecret %s: fencepost would not trust the nodes. Name a Secret with ca.crt; it may be the same one." .redis.bundled.tlsSecret) }}
{{- end }}
{{- if and (not .redis.bundled.tlsSecret) .redis.certSecret }}
{{- fail (printf "redis.certSecret is %s with redis.mode bundled, whose nodes speak plain text: name their certificate in redis.bundled.tlsSecret, or leave it out." .redis.certSecret) }}
{{- end }}
{{- if and .redis.bundled.demandCertificates (not .redis.certSecret) }}
{{- fail "redis.bundled.demandCertificates is true and redis.certSecret is empty: the nodes would let in no sidecar. Name a Secret with tls.crt and tls.key, upgrade, and only then demand them." }}
{{- end }}
{{- if and (not .redis.bundled.tlsSecret) .redis.caSecret }}
{{- fail (printf "redis.caSecret is %s with redis.mode bundled, whose nodes speak plain text: name their certificate in redis.bundled.tlsSecret, or leave it out." .redis.caSecret) }}
{{- end }}
{{- end }}
{{- if and .service.autoscaling.enabled (lt (int .service.autoscaling.maxReplicas) (int .service.autoscaling.minReplicas)) }}
{{- fail (printf "service.autoscaling.maxReplicas is %d, below service.autoscaling.minReplicas %d: raise it." (int .service.autoscaling.maxReplicas) (int .service.autoscaling.minReplicas)) }}
{{- end }}
{{- if and (eq .redis.mode "embedded") .service.enabled .service.autoscaling.enabled (gt (int .service.autoscaling.maxReplicas) 1) }}
{{- fail (printf "service.autoscaling.maxReplicas is %d with redis.mode embedded: each replica would decide by itself, and nothing would be deduplicated between them. Switch service.autoscaling off." (int .service.autoscaling.maxReplicas)) }}
{{- end }}
{{- if and .service.enabled .service.autoscaling.enabled (not (dig "requests" "cpu" "" .resources)) }}
{{- fail "resources.requests.cpu is empty with service.autoscaling.enabled: its target is a percentage of it. Set it." }}
{{- end }}
{{- if and (eq .redis.mode "embedded") .service.enabled (gt (int .service.replicas) 1) }}
{{- fail (printf "service.replicas is %d with redis.mode embedded: each would decide by itself, and nothing would be deduplicated between them. Set it to 1." (int .service.replicas)) }}
{{- end }}
{{- if and .service.enabled (not .service.tokenSecret) }}
{{- fail "service.tokenSecret is empty: a shared service can hold and complete anybody's records, so its callers must show a token. Name a Secret with the key token." }}
{{- end }}
{{- if and (eq .failureMode "fail-open") (not .failureModeAcknowledged) }}
{{- fail "failureMode is fail-open: while the nodes are away requests are carried out twice. Set failureModeAcknowledged to true where that is meant." }}
{{- end }}
{{- $own := list "FENCEPOST_REDIS_NODES" "FENCEPOST_ON_QUORUM_LOSS" "FENCEPOST_API_LISTEN" "FENCEPOST_GATEWAY_LISTEN" "FENCEPOST_GATEWAY_GRPC_LISTEN" "FENCEPOST_PROXY_LISTEN" "FENCEPOST_CONFIG" "FENCEPOST_API_TOKEN_FILE" "FENCEPOST_INSTANCE" "FENCEPOST_REDIS_USERNAME" "FENCEPOST_REDIS_PASSWORD_FILE" "FENCEPOST_REDIS_CA_FILE" "FENCEPOST_REDIS_CERT_FILE" "FENCEPOST_REDIS_KEY_FILE" }}
{{- range $name := $own }}
{{- if hasKey $settings $name }}
{{- fail (printf "settings.%s is given: this chart sets it from a value of its own." $name) }}
{{- end }}
{{- if hasKey $secretFiles $name }}
{{- fail (printf "secretFiles.%s is given: this chart sets it from a value of its own." $name) }}
{{- end }}
{{- end }}
{{- include "fencepost.configGuard" (dict "config" $config "own" $own "operator" .operator) }}
{{- if hasKey $settings "FENCEPOST_ADMIN_LISTEN" }}
{{- fail "settings.FENCEPOST_ADMIN_LISTEN is given: probes and Prometheus ask port 9090 of the pod. Leave it out; where pods have IPv6 addresses set listenHost." }}
{{- end }}
{{- if dig "admin" "" ($config.listen | default dict) }}
{{- fail "config.listen.admin is given: probes and Prometheus ask port 9090 of the pod. Leave it out; where pods have IPv6 addresses set listenHost." }}
{{- end }}
{{- if contains "admin" (dig "FENCEPOST_TLS_LISTENERS" (dig "listeners" "" ($config.tls | default dict) | toString) $settings | toString) }}
{{- fail "settings.FENCEPOST_TLS_LISTENERS (tls.listeners) names admin: probes and Prometheus ask it in plain text. Leave admin out of it." }}
{{- end }}
{{- if has (dig "FENCEPOST_REQUIRE_TLS" (dig "require" "off" ($config.tls | default dict)) $settings | toString) (list "on" "true") }}
{{- fail "settings.FENCEPOST_REQUIRE_TLS (tls.require) is on: probes and Prometheus ask port 9090 of the pod in plain text, so that fencepost would not start. Leave it off, and encrypt around the pods with a mesh." }}
{{- end }}
{{- $faults := printf "%s%s" (include "fencepost-lib.settingFaults" (dict "settings" $settings "secretFiles" $secretFiles)) (include "fencepost-lib.configFaults" (dict "config" $config)) }}
{{- with $faults | trim }}{{ fail . }}{{ end }}
{{- include "fencepost.waitGuard" $ }}
{{- $drain := include "fencepost-lib.settingValue" (dict "name" "FENCEPOST_DRAIN_TIMEOUT" "settings" $settings "config" $config) }}
{{- $seconds := divf (include "fencepost-lib.amount" $drain | float64) 1000 | ceil | int }}
{{- if and .service.enabled (lt (int .service.terminationGracePeriodSeconds) (add $seconds 10 | int)) }}
{{- fail (printf "service.terminationGracePeriodSeconds is %d with a drain (FENCEPOST_DRAIN_TIMEOUT, limits.drain) of %s: the pod would be killed at its work. Give it %d or more: 5 before the drain, 5 after it." (int .service.terminationGracePeriodSeconds) $drain (add $seconds 10)) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The chart gives its own settings by the environment, which wins over the file: what stands there, too, would be passed over without a word. */ -}}
{{- define "fencepost.configGuard" -}}
{{- $own := .own }}
{{- if .operator.enabled }}{{ $own = concat $own (list "FENCEPOST_OPERATOR_LISTEN" "FENCEPOST_OPERATOR_TOKENS_FILE") }}{{ end }}
{{- if .operator.tlsSecret }}{{ $own = concat $own (list "FENCEPOST_TLS_LISTENERS" "FENCEPOST_TLS_CERT_FILE" "FENCEPOST_TLS_KEY_FILE") }}{{ end }}
{{- $table := include "fencepost-lib.settingsTable" . | fromJson }}
{{- range $name := $own }}
{{- $path := dig $name "path" "" $table }}
{{- $value := $.config }}
{{- range $member := splitList "." $path }}
{{- $value = ternary (get ($value | default dict) $member) "" (kindIs "map" $value) }}
{{- end }}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
{{- fail (printf "config.%s is given (%s): this chart sets it from a value of its own, which would win. Leave it out." $path $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A rollout that waits for a time instead of a vote has to wait longer than a node that forgot is in quarantine. */ -}}
{{- define "fencepost.waitGuard" -}}
{{- with .Values }}
{{- if and (eq .redis.mode "bundled") (eq .redis.bundled.readiness "connects") (eq .redis.bundled.updateStrategy.type "RollingUpdate") }}
{{- $config := .config | default dict }}
{{- $of := dict "settings" .settings "config" $config }}
{{- $leases := list (include "fencepost-lib.settingValue" (merge (dict "name" "FENCEPOST_LEASE") $of)) (include "fencepost-lib.settingValue" (merge (dict "name" "FENCEPOST_RESERVATION_MAX_LEASE") $of)) }}
{{- range $config.routes }}{{ with .lease }}{{ $leases = append $leases . }}{{ end }}{{ end }}
{{- $longest := 0 }}
{{- range $leases }}{{ $longest = max $longest (include "fencepost-lib.amount" . | int64) }}{{ end }}
{{- $step := include "fencepost-lib.amount" (include "fencepost-lib.settingValue" (merge (dict "name" "FENCEPOST_CLOCK_STEP") $of)) | int64 }}
{{- $quarantine := add (mulf $longest 1.01 | ceil | int64) 2 $step }}
{{- with include "fencepost-lib.settingValue" (merge (dict "name" "FENCEPOST_QUARANTINE") $of) }}{{ $quarantine = max $quarantine (include "fencepost-lib.amount" . | int64) }}{{ end }}
{{- if le (mul (int64 .redis.bundled.minReadySeconds) 1000) $quarantine }}
{{- fail (printf "redis.bundled.minReadySeconds is %d with redis.bundled.readiness connects, and a node that forgot does not vote for %dms (longest lease · 1.01 + 2ms + FENCEPOST_CLOCK_STEP, or FENCEPOST_QUARANTINE): a rollout would take the next node before. Give it more, or set redis.bundled.readiness to votes." (int .redis.bundled.minReadySeconds) $quarantine) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
The nodes of a release have all of its records. Without them, or with empty ones of another name, it would forget what was executed. Of several fencepost in a
chart of charts each has its own name in the label of the chart. Without a cluster there is nothing to look up.
*/ -}}
{{- define "fencepost.lostNodesGuard" -}}
{{- if .Release.IsUpgrade }}
{{- $name := include "fencepost.nodesName" . }}
{{- $mode := .Values.redis.mode }}
{{- $ours := list }}
{{- $replicas := 0 }}
{{- range (lookup "apps/v1" "StatefulSet" .Release.Namespace "").items }}
{{- $labels := .metadata.labels | default dict }}
{{- $chart := regexReplaceAll "-[0-9]+[.][0-9]+[.][0-9]+.*$" (get $labels "helm.sh/chart") "" }}
{{- if and (eq (get $labels "app.kubernetes.io/name") "fencepost-redis") (eq $chart $.Chart.Name) (eq (get (.metadata.annotations | default dict) "meta.helm.sh/release-name") $.Release.Name) }}
{{- $ours = append $ours .metadata.name }}
{{- if eq .metadata.name $name }}{{ $replicas = dig "spec" "replicas" 0 . | int }}{{ end }}
{{- end }}
{{- end }}
{{- if and $ours (ne $mode "bundled") }}
{{- fail (printf "this release has the nodes %s, and redis.mode %s would delete them: other nodes know none of its records, and requests that were executed would be executed again. Leave redis.mode as it is. Where the records may be lost, uninstall the release first." (first $ours) $mode) }}
{{- end }}
{{- if and $ours (not (has $name $ours)) }}
{{- fail (printf "the nodes of this release are called %s, and would be called %s: those would be empty, and requests that were executed would be executed again. Keep the name: set fullnameOverride to %s, or leave it out where that is the name of the release. Where the records may be lost, uninstall the release first." (first $ours) $name (first $ours | trimSuffix "-redis")) }}
{{- end }}
{{- if and (eq $mode "bundled") (lt (int .Values.redis.bundled.count) $replicas) }}
{{- fail (printf "this release has %d nodes, and redis.bundled.count %d would end the others at once: what a majority of %d knows may be known to one of those that stay, and requests that were executed would be executed again. Leave it as it is. Where the records may be lost, uninstall the release first." $replicas (int .Values.redis.bundled.count) $replicas) }}
{{- end }}
{{- include "fencepost.otherNodesGuard" . }}
{{- end }}
{{- end }}

{{- /*
Other nodes, of which none has the records. Where one stays, sidecars with the new list end and say so, because it knows the old one: brand-new nodes know nothing.
*/ -}}
{{- define "fencepost.otherNodesGuard" -}}
{{- $before := "" }}
{{- range (dig "spec" "template" "spec" "containers" list (lookup "apps/v1" "Deployment" .Release.Namespace (include "fencepost.fullname" .))) }}
{{- range .env }}
{{- if eq .name "FENCEPOST_REDIS_NODES" }}{{ $before = .value | default "the nodes of redis.nodesFrom" }}{{ end }}
{{- end }}
{{- end }}
{{- $of := dict "name" "FENCEPOST_REDIS_NODE_NAMES" "settings" (.Values.settings | default dict) "config" (.Values.config | default dict) }}
{{- /* With names the servers may have other addresses, and what stands in a ConfigMap or Secret is not looked at. */}}
{{- $unknown := or (include "fencepost-lib.settingValue" $of) .Values.redis.nodesFrom (and (not (contains "://" $before)) (eq .Values.redis.mode "external")) }}
{{- if and $before (ne $before "embedded") (not $unknown) }}
{{- $after := include "fencepost-lib.nodes" (include "fencepost.nodes" . | fromYaml).are }}
{{- $stays := false }}
{{- range regexFindAll "//[^,;/:]+" $before -1 }}
{{- if has . (regexFindAll "//[^,;/:]+" $after -1) }}{{ $stays = true }}{{ end }}
{{- end }}
{{- if not $stays }}
{{- fail (printf "the pods of this release use %s, and none of these nodes is among %s: the others know none of its records, and requests that were executed would be executed again. Leave redis.mode and the nodes as they are. Where these are the same servers at other addresses, give their names in settings.FENCEPOST_REDIS_NODE_NAMES (docs/operations/nodes.md). Where the records may be lost, uninstall the release first." $before $after) }}
{{- end }}
{{- end }}
{{- end }}

{{- /*
What a template can't go without. A value is missing where it was set to null, or where `helm upgrade --reuse-values` brings the values of a chart that did not have
it. Sections that may be empty are not among them.
*/ -}}
{{- define "fencepost.missingGuard" -}}
{{- $missing := list }}
{{- range $path := list "image.repository" "image.pullPolicy" "service.enabled" "service.terminationGracePeriodSeconds" "service.autoscaling.enabled" "redis.mode" "redis.bundled.count" "redis.bundled.image" "redis.bundled.openToAll" "redis.bundled.demandCertificates" "redis.bundled.maxmemory" "redis.bundled.memory" "redis.bundled.storage" "redis.bundled.zoneSpread" "redis.bundled.readiness" "redis.bundled.minReadySeconds" "redis.bundled.updateStrategy.type" "redis.bundled.probes.startup" "redis.bundled.probes.readiness" "redis.bundled.probes.liveness" "failureMode" "operator.enabled" "operator.ingress.enabled" "injection.enabled" "injection.resources.requests.memory" "injection.resources.limits.memory" "probe.enabled" "probe.rate" "probe.copies" "probe.tenant" "probe.retention" "networkPolicy.enabled" "networkPolicy.monitoringNamespace" "podMonitor.enabled" "podMonitor.interval" "prometheusRule.enabled" "prometheusRule.runbookUrl" "prometheusRule.grafanaUrl" "dashboards.enabled" }}
{{- $value := $.Values }}
{{- $at := list }}
{{- range $name := splitList "." $path }}
{{- if kindIs "map" $value }}
{{- $at = append $at $name }}
{{- $value = index $value $name }}
{{- end }}
{{- end }}
{{- if kindIs "invalid" $value }}{{ $missing = append $missing (join "." $at) }}{{ end }}
{{- end }}
{{- with $missing | uniq }}
{{- fail (printf "%s: a value that the chart needs is missing. To have its default leave it out, instead of setting it to null; and instead of --reuse-values upgrade with --reset-then-reuse-values." (join ", " .)) }}
{{- end }}
{{- end }}

{{- /*
In the repository these files are links. What fetches a chart without them (Flux from a GitRepository, Git on Windows) gives Helm an empty text, and an empty
script is a probe that always succeeds.
*/ -}}
{{- define "fencepost.filesGuard" -}}
{{- $fetch := "In the repository it is a link, which not everything follows that fetches from Git, such as Flux. Install the packed chart: oci://ghcr.io/fencepost/charts/fencepost, or `npm run release -- charts` makes it." }}
{{- if and (eq .Values.redis.mode "bundled") (not (hasPrefix "#!/bin/sh" (.Files.Get "files/votes.sh"))) }}
{{- fail (printf "the chart has no files/votes.sh: every node would count as ready, also one that does not vote, and a drain could take the quorum. %s" $fetch) }}
{{- end }}
{{- if and .Values.prometheusRule.enabled (not (.Files.Get "files/dashboards/rules/fencepost.rules.yaml")) }}
{{- fail (printf "the chart has no files/dashboards/rules/fencepost.rules.yaml: there would be no alert. %s" $fetch) }}
{{- end }}
{{- if and .Values.dashboards.enabled (not (.Files.Glob "files/dashboards/*.json")) }}
{{- fail (printf "the chart has no files/dashboards/*.json: there would be no dashboard. %s" $fetch) }}
{{- end }}
{{- end }}

{{- define "fencepost.imageGuards" -}}
{{- if eq .image.tag "latest" }}
{{- fail "image.tag is latest: two pods could then run two versions. Name a version." }}
{{- end }}
{{- if and (eq .redis.mode "bundled") (hasSuffix ":latest" .redis.bundled.image) }}
{{- fail (printf "redis.bundled.image is %s: a node that restarts could then run another version than the others. Name a version or a digest." .redis.bundled.image) }}
{{- end }}
{{- end }}

{{- /* A rewrite of the append-only file, and what the node does not count, need the other half: beyond the limit the kernel kills it. */ -}}
{{- define "fencepost.sizesGuard" -}}
{{- if eq .redis.mode "bundled" }}
{{- with .redis.bundled }}
{{- if gt (mul 2 (include "fencepost.bytes" .maxmemory | int64)) (include "fencepost.bytes" .memory | int64) }}
{{- fail (printf "redis.bundled.maxmemory is %s, more than half of redis.bundled.memory %s: the kernel would kill a node before it refuses writes. Lower the first or raise the second." .maxmemory .memory) }}
{{- end }}
{{- /* The file grows to twice the data before it is rewritten, and the new one stands beside it. What is written meanwhile needs the rest. */}}
{{- if gt (mul 4 (include "fencepost.bytes" .maxmemory | int64)) (include "fencepost.bytes" .storage | int64) }}
{{- fail (printf "redis.bundled.storage is %s, less than four times redis.bundled.maxmemory %s: the append-only file takes three times the data while it is rewritten, and a node ends when its volume is full, all of them at about the same time. Raise the first (docs/operations/deploy.md, larger volumes) or lower the second." .storage .maxmemory) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* 512mb as Valkey writes it, 1Gi as Kubernetes does: both count by 1024. */ -}}
{{- define "fencepost.bytes" -}}
{{- $units := dict "kb" 1024 "mb" 1048576 "gb" 1073741824 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 }}
{{- mul (regexFind "^[0-9]+" . | int64) (get $units (regexFind "[A-Za-z]+$" .) | int64) }}
{{- end }}

{{- define "fencepost.operatorGuards" -}}
{{- with .operator }}
{{- if and .enabled (not $.service.enabled) }}
{{- fail "operator.enabled is true with service.enabled false: the listener is that of the service. Open that of a sidecar with the member operator of the library chart." }}
{{- end }}
{{- if and .enabled (not .tokensSecret) }}
{{- fail "operator.enabled is true and operator.tokensSecret is empty: name a Secret with the key tokens, one person or tool a line, `name role token`." }}
{{- end }}
{{- if and .enabled (eq $.redis.mode "embedded") }}
{{- fail "operator.enabled is true with redis.mode embedded, whose nodes keep no audit log: use bundled or external nodes, or leave it off." }}
{{- end }}
{{- if and (not .enabled) (or .tokensSecret .tlsSecret .fromNamespace .ingress.enabled) }}
{{- fail "operator.enabled is false, and another value of operator is given: set it to true, or leave the others out." }}
{{- end }}
{{- if and .fromNamespace (not .tlsSecret) }}
{{- fail (printf "operator.fromNamespace is %s and operator.tlsSecret is empty: without a certificate the listener is in the pods alone. Name a Secret with tls.crt and tls.key." .fromNamespace) }}
{{- end }}
{{- if .ingress.enabled }}
{{- if not .tlsSecret }}
{{- fail "operator.ingress.enabled is true and operator.tlsSecret is empty: without a certificate the listener is in the pods alone. Name a Secret with tls.crt and tls.key." }}
{{- end }}
{{- if not (and .ingress.host .ingress.tlsSecret) }}
{{- fail "operator.ingress.enabled is true without operator.ingress.host or operator.ingress.tlsSecret: name both, because tokens are never sent in clear text." }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
