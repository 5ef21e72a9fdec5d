#!/bin/sh
# Readiness of a node: succeeds while it votes, which is while its incarnation names the process that runs now (docs/operations/nodes.md).
# A node that was restarted, emptied or replaced fails until it has learned what it missed. So a drain, a rollout and the disruption
# budget wait for its vote, and not for its port.
#   votes.sh [options of valkey-cli]      the password, where there is one, is in /etc/valkey-login/password
set -eu
if [ -r /etc/valkey-login/password ]; then
  REDISCLI_AUTH=$(cat /etc/valkey-login/password)
  export REDISCLI_AUTH
fi
told=$(valkey-cli "$@" EVAL '
  local run = string.match(redis.call("INFO", "server"), "run_id:(%x+)")
  local incarnation = redis.call("GET", KEYS[1])
  if incarnation and string.sub(incarnation, 1, #run + 3) == "1:" .. run .. ":" then return "votes" end
  if incarnation then return "its incarnation is of an earlier run: it waits, or copies what it missed" end
  return "it has no incarnation: it waits, or no sidecar has founded the cluster yet"
' 1 dedup::incarnation 2>&1) || true
[ "$told" = votes ] || { echo "$told" >&2; exit 1; }
