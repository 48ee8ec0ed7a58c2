#!/usr/bin/env bash
# Installs pinned versions into the virtual environment. Safe to run again.
# Usage: tools/setup.sh [all|demo|server]: everything, or what one of them needs.
#        tools/setup.sh fits: print yes if the environment is one of the interpreter PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
venv=${VENV:-.venv}
part=${1:-all}

interpreter() { # its version, build and place; nothing if it does not run
  "$1" -c 'import sys; print(sys.version, sys.base_prefix)' 2>/dev/null || true
}

fits() { # whether the environment works, and has the interpreter that PYTHON names, if it does
  local there
  there=$(interpreter "$venv/bin/python")
  [ -n "$there" ] && { [ -z "${PYTHON:-}" ] || [ "$there" = "$(interpreter "$python")" ]; }
}

case $part in
  fits) fits && echo yes || echo no && exit 0 ;;
  all) pins=requirements.txt ;;
  demo | server) pins=requirements-$part.txt ;;
  *) echo "setup: expected all, demo or server, not '$part'" >&2 && exit 2 ;;
esac

if ! command -v "$python" >/dev/null; then
  echo "setup: '$python' was not found; install Python 3.11 or newer, or name one: make setup PYTHON=python3.12" >&2
  exit 1
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "setup: Python 3.11 or newer is needed, '$python' is $("$python" --version); name another: make setup PYTHON=python3.12" >&2
  exit 1
fi

# Debian keeps the venv module in a package of its own.
if ! "$python" -c 'import venv, ensurepip' 2>/dev/null; then
  package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing $package" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$package" >/dev/null
  else
    echo "setup: Python's venv module is missing; install it: sudo apt-get install $package" >&2
    exit 1
  fi
fi

# The languages in which scans are read, and how a page lies. Everything else works without.
missing=()
languages=(eng spa por pol deu fra osd)
[ "$part" != demo ] || languages=() # it has no scans
for name in "${languages[@]}"; do
  compgen -G "${TESSDATA_PREFIX:-/nowhere}/$name.traineddata" >/dev/null ||
    compgen -G "/usr/share/tesseract-ocr/*/tessdata/$name.traineddata" >/dev/null ||
    compgen -G "/usr/share/tessdata/$name.traineddata" >/dev/null ||
    missing+=("tesseract-ocr-$name")
done
if [ ${#missing[@]} -gt 0 ]; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "setup: installing ${missing[*]}" >&2
    apt-get update -qq -o Acquire::Retries=3 >/dev/null &&
      DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Acquire::Retries=3 --no-install-recommends "${missing[@]}" >/dev/null ||
      echo "setup: that failed; scans will not be read in all languages" >&2
  else
    echo "setup: scans need these packages to be read: sudo apt-get install ${missing[*]}" >&2
  fi
fi

if ! fits; then
  [ ! -e "$venv" ] || echo "setup: making $venv anew, with $("$python" --version)" >&2
  "$python" -m venv --clear "$venv"
fi
echo "setup: installing the versions of $pins into $venv" >&2
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$pins"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --no-index -e .
