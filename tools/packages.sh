#!/usr/bin/env bash
# Installs the servers and the browser that tests start, where it may. Safe to run again.
# Tests start servers of their own, so what Debian would start by itself is not started.
set -euo pipefail

missing=()
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || command -v postgres >/dev/null || missing+=(postgresql)
command -v pgbouncer >/dev/null || [ -x /usr/sbin/pgbouncer ] || missing+=(pgbouncer)
command -v redis-server >/dev/null || missing+=(redis-server)
[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ] || missing+=(rabbitmq-server)
command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null ||
  missing+=(chromium fonts-dejavu-core)
command -v systemd-analyze >/dev/null || missing+=(systemd)
[ ${#missing[@]} -gt 0 ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "packages: some tests will be skipped without these: sudo apt-get install ${missing[*]}" >&2
  exit 0
fi

echo "packages: installing ${missing[*]}" >&2
mkdir -p /etc/postgresql-common
[ -e /etc/postgresql-common/createcluster.conf ] ||
  echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then # Debian asks this file whether a service may be started
  trap 'rm -f "$policy"' EXIT
  printf '#!/bin/sh\nexit 101\n' >"$policy"
  chmod 755 "$policy"
fi
if ! { apt-get update -qq -o Acquire::Retries=3 >/dev/null &&
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Acquire::Retries=3 --no-install-recommends "${missing[@]}" >/dev/null; }; then
  echo "packages: that failed; tests that need them will be skipped, or fail where CI is set" >&2
fi
if [ -d /run/systemd/system ]; then
  for service in redis-server rabbitmq-server; do # nor when the machine starts again
    if [[ " ${missing[*]} " == *" $service "* ]]; then
      systemctl disable --quiet "$service" 2>/dev/null || true
    fi
  done
fi
