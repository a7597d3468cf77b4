#!/bin/sh
# Sets up what the Makefile's targets need, on Debian with git, make, a C compiler, Python 3.11 and Rust. Quick when done.
# `setup.sh build`: only what the command and the demo need; `setup.sh forwarder`: libraries of that target, besides;
# `setup.sh dist`: what the static command is built with; `setup.sh spark`: pyspark, and an S3 server for tests, into .venv,
# once that is there; `setup.sh storm`: what its topology needs.
set -eu
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }
# Waits up to ten minutes for whoever holds the package manager's locks. DPkg::Lock::Timeout covers installing; the lock of the
# package lists is not waited for by every apt, so a command that meets a held lock is tried again.
apt_get() {
    tries=60
    until said=$(DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=600 "$@" 2>&1); do
        tries=$((tries - 1))
        case $said in *"Could not get lock"*|*"Unable to lock"*) ;; *) tries=0 ;; esac
        [ "$tries" -gt 0 ] || { echo "$said" >&2; return 1; }
        sleep 10
    done
}
install() { # package, what for
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        say "installing $1 ($2); waits if another program installs something"
        apt_get update && apt_get install -y ${recommends:-} "$1" >/dev/null || fail "cannot install $1: apt-get failed, see above; install it by hand"
    else
        fail "expected $1 ($2), found none, and cannot install it unprivileged. As root: apt-get install $1"
    fi
}
# Installs a package of a service; whoever has a policy keeps it, otherwise nothing that is installed here is started.
install_unstarted() {
    policy=/usr/sbin/policy-rc.d
    if [ -e "$policy" ] || [ "$(id -u)" != 0 ]; then install "$@"; return; fi
    printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
    install "$@"
    rm -f "$policy"
    trap - EXIT
}

command -v cargo >/dev/null || fail "expected cargo and rustc 1.88 or later, found none. Install Rust"
version=$(rustc --version | cut -d' ' -f2)
[ "$(printf '%s\n1.88.0\n' "$version" | sort -V | head -n1)" = 1.88.0 ] || fail "expected rustc 1.88 or later, found $version. Update Rust"
command -v cc >/dev/null || install gcc "a C compiler"
[ "$(id -u)" != 0 ] || command -v ip >/dev/null || install iproute2 "network namespaces"
[ "${1:-}" != build ] || exit 0
if [ "${1:-}" = forwarder ]; then
    recommends=--no-install-recommends
    command -v pkg-config >/dev/null || install pkg-config "where libraries are"
    pkg-config --exists "libdpdk >= 22.11" || install libdpdk-dev "the forwarder's datapath net_ring"
    pkg-config --exists liburcu || install liburcu-dev "the forwarder's primitives rcu and rcu-sync"
    exit 0
fi

if [ "${1:-}" = dist ]; then
    target=$(uname -m)-unknown-linux-musl
    if [ ! -e "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
        command -v rustup >/dev/null && rustup -q target add "$target" 2>/dev/null || say "no Rust library for $target: the static command is left out"
    fi
    command -v musl-gcc >/dev/null || if [ "$(id -u)" = 0 ]; then install musl-tools "the static command"
    else say "no musl-gcc: the static command is left out"; fi
    exit 0
fi

if [ "${1:-}" = storm ]; then
    command -v javac >/dev/null || install default-jdk-headless "Storm"
    command -v mvn >/dev/null || install maven "Storm, which it fetches"
    recommends=--no-install-recommends
    command -v redis-server >/dev/null || install_unstarted redis-server "the benchmark's campaigns"
    exit 0
fi

if [ "${1:-}" = spark ]; then
    command -v java >/dev/null || install default-jre-headless "Spark"
    [ -x .venv/bin/pip ] || fail "expected .venv, found none. Run scripts/setup.sh"
    wanted=$(sha256sum python/requirements-spark.txt | cut -d' ' -f1)
    if [ "$(cat .venv/requirements-spark.sha256 2>/dev/null)" != "$wanted" ]; then
        say "installing pyspark and moto into .venv (550 MB)"
        .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r python/requirements-spark.txt
        echo "$wanted" > .venv/requirements-spark.sha256
    fi
    exit 0
fi

command -v javac >/dev/null || install default-jdk-headless "the library for Java"
if ! command -v c++ >/dev/null; then
    if [ "$(id -u)" = 0 ]; then install g++ "the C++ test of tickscope.h"; else say "no C++ compiler: the C++17 test of tickscope.h is left out"; fi
fi
if ! echo 'int main(void) { return 0; }' | clang -xc - -fsanitize=thread -o /dev/null 2>/dev/null; then
    if [ "$(id -u)" = 0 ]; then install clang "its sanitizers"
    else say "no clang with sanitizers: tickscope.h is tested under those of gcc alone"; fi
fi
if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then
    if [ "$(id -u)" = 0 ]; then
        install gcc-aarch64-linux-gnu "tickscope.h on aarch64"; install libc6-dev-arm64-cross "its C library"; install qemu-user "its emulator"
    else say "no compiler or emulator of aarch64: the tests of it are left out"; fi
fi
if command -v rustup >/dev/null && [ ! -e "$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu" ]; then
    rustup -q target add aarch64-unknown-linux-gnu 2>/dev/null || say "no Rust library for aarch64: Rust on it is left out"
fi
if ! command -v chromium >/dev/null; then
    if [ "$(id -u)" = 0 ]; then install chromium "the report's page in a browser"; else say "no chromium: the tests of the report's page in a browser are left out"; fi
fi
if ! command -v babeltrace2 >/dev/null; then
    if [ "$(id -u)" = 0 ]; then install babeltrace2 "a reader of the Common Trace Format"
    else say "no babeltrace2: the test of export --ctf is left out"; fi
fi
if [ ! -x /usr/sbin/sshd ]; then
    if [ "$(id -u)" = 0 ]; then install_unstarted openssh-server "hosts of the tests"
    else say "no sshd: the tests over ssh are left out"; fi
fi
# chrony and ptp4l are unpacked, not installed: an installed chrony starts a service that sets this machine's clock.
if [ ! -x build/rivals/usr/sbin/chronyd ] || [ ! -x build/rivals/usr/sbin/ptp4l ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
        say "unpacking chrony and linuxptp under build/rivals (what the clock maps are compared with)"
        mkdir -p build/rivals/packages
        apt_get update && chmod 755 build/rivals/packages &&
            (cd build/rivals/packages && apt_get download chrony linuxptp) || fail "cannot download chrony and linuxptp: apt-get failed, see above"
        for package in build/rivals/packages/*.deb; do dpkg-deb -x "$package" build/rivals; done
        rm -r build/rivals/packages
        if ldd build/rivals/usr/sbin/chronyd build/rivals/usr/sbin/ptp4l build/rivals/usr/bin/chronyc | grep -q "not found"; then
            say "chrony or linuxptp lacks a library here: the tests beside them are left out"
        fi
    else say "no chrony, no ptp4l: the tests and the benchmark beside them are left out"
    fi
fi
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "expected Python 3.11 or later, found $(python3 --version)"

wanted=$(sha256sum python/requirements.txt | cut -d' ' -f1)
if [ "$(cat .venv/requirements.sha256 2>/dev/null)" != "$wanted" ]; then
    python3 -c 'import ensurepip' 2>/dev/null || install python3-venv "virtual environments"
    say "making .venv: DuckDB, pyarrow and pytest read the run's files in the tests, playwright its page"
    python3 -m venv .venv
    .venv/bin/pip install --quiet --disable-pip-version-check --require-hashes -r python/requirements.txt
    echo "$wanted" > .venv/requirements.sha256
fi
