#!/bin/sh
# Builds what is installed elsewhere into build/dist: a wheel, the command as a static program, crates as `cargo package`
# makes them, and the jars with their POMs. Nothing is uploaded.
set -eu
cd "$(dirname "$0")/.."
PATH="$PWD/.venv/bin:$PATH"
out=$PWD/build/dist
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)

say() { echo "dist: $*" >&2; }

rm -rf "$out" build/crates && mkdir -p "$out/crates" build/crates

say "the wheel"
pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir "$out" \
    --config-settings=build-args="--profile release --compatibility pypi" .

say "the static command"
target=$(uname -m)-unknown-linux-musl
if [ -e "$(rustc --print sysroot)/lib/rustlib/$target" ] && command -v musl-gcc >/dev/null; then
    cargo build --quiet --release --locked --target "$target" --package tickscope-cli --bin tickscope
    strip -o "$out/tickscope-$version-$target" "target/$target/release/tickscope"
else
    say "left out: expected Rust's library for $target and musl-gcc. Run scripts/setup.sh dist"
fi

say "the crates"
# From a copy: the workspace's own crates are marked as not to be published, so that nobody does by mistake.
git ls-files -z | tar --create --null --files-from=- | tar --extract --directory=build/crates
sed -i 's/^publish = false$/publish = true/' build/crates/Cargo.toml
cargo package --quiet --locked --no-verify --manifest-path build/crates/Cargo.toml --target-dir target/package \
    --workspace --exclude tickscope-python --exclude tickscope-prrt
cp target/package/package/*-"$version".crate "$out/crates"
rm -rf build/crates

say "the jars"
make --no-print-directory java
cp -r build/maven "$out/maven"
say "all of it is in $out"
