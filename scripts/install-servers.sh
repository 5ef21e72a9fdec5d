#!/bin/sh
# Installs packages of Debian or Ubuntu for the tests, as root, without starting the services that they bring.
# usage: sh scripts/install-servers.sh PACKAGE…
#
# A server package starts its service on the default port as soon as it is installed. The tests start servers of their
# own on free ports and use no others; so the start is forbidden while the packages are installed (policy-rc.d, exit
# 101: "action forbidden by policy"; https://people.debian.org/~hmh/invokerc.d-policyrc.d-specification.txt), and what
# was there before is put back.
set -eu

policy=${POLICY_RC_D:-/usr/sbin/policy-rc.d}
kept=$policy.kept-by-fencepost

restore() {
  rm -f "$policy"
  if [ -e "$kept" ] || [ -L "$kept" ]; then mv "$kept" "$policy"; fi
}
# A kept file of an earlier run that was killed is the real one: it is not overwritten.
if [ ! -e "$kept" ] && { [ -e "$policy" ] || [ -L "$policy" ]; }; then mv "$policy" "$kept"; fi
trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

export DEBIAN_FRONTEND=noninteractive
# Another apt may be at work on a fresh machine (unattended-upgrades): wait for it rather than fail.
wait_for_lock="-o DPkg::Lock::Timeout=120"
# The lists may be older than the mirror or missing altogether. Without a network the install below says so.
apt-get $wait_for_lock -qq update || true
apt-get $wait_for_lock -qq install -y --no-install-recommends "$@"
