#!/bin/sh
# Builds the wheel of this tree and installs it in .venv, with what checks it. Cargo's dev profile, so that the tests' builds
# are shared; for users there is `pip install .`. Quick when nothing changed.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"

say() { echo "python: $*" >&2; }

wanted=$(sha256sum python/requirements-develop.txt | cut -d' ' -f1)
if [ "$(cat .venv/requirements-develop.sha256 2>/dev/null)" != "$wanted" ]; then
    say "installing maturin, mypy, ruff, marimo and plotly into .venv"
    pip install --quiet --disable-pip-version-check --require-hashes -r python/requirements.txt -r python/requirements-develop.txt
    echo "$wanted" > .venv/requirements-develop.sha256
fi

log=build/wheel.log
rm -rf build/wheels && mkdir -p build/wheels
TICKSCOPE_PROFILE=dev pip wheel --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir build/wheels . > "$log" 2>&1 || {
    cat "$log" >&2
    say "expected a wheel, found the error above"
    exit 1
}
pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/wheels/*.whl
