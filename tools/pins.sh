#!/usr/bin/env bash
# Pins what pyproject.toml names: requirements.txt has everything, the others are parts of it.
# The peers of the benchmarks have lists and pins of their own.
# Versions that are pinned stay; `make pins UPGRADE=--upgrade` takes the newest ones.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools" && "$tools/bin/pip" install --quiet --disable-pip-version-check uv

compile() {
  "$tools/bin/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes \
    --no-emit-index-url --no-emit-find-links --no-header --no-config "$@"
}

part() { # the file's name, then the extras in it
  local file=requirements-$1.txt extra extras=()
  shift
  for extra in "$@"; do extras+=(--extra "$extra"); done
  compile pyproject.toml --no-annotate --constraint requirements.txt --group build "${extras[@]}" -o "$file"
}

compile pyproject.toml ${UPGRADE:-} --all-extras --group dev -o requirements.txt
part demo demo
part server server ocr postgres s3 celery client
for list in peers readers; do
  compile "bench/$list-requirements.in" ${UPGRADE:-} --no-annotate --constraint requirements.txt \
    -o "bench/$list-requirements.txt"
done
