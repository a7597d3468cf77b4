#!/bin/sh
# Builds build/tickscope.jar with the JDK of JAVA_HOME, or that of the javac that is found; any from 17 on will do.
set -eu
cd "$(dirname "$0")/.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac || true)")")")}
[ -x "$home/bin/javac" ] || { echo "java: expected a JDK of 17 or later, found no javac. Install one, or set JAVA_HOME" >&2; exit 1; }
case $(uname -m) in x86_64) arch=amd64 ;; *) arch=$(uname -m) ;; esac
classes=build/java/classes
mkdir -p build/java && rm -rf "$classes" && mkdir -p "$classes/tickscope/$arch"
"$home/bin/javac" --release 17 -Xlint:all -Werror -d "$classes" java/src/tickscope/*.java
"${CC:-cc}" -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -ffunction-sections -fdata-sections -nostdlib \
    -Wl,--gc-sections -Wl,-z,defs -I crates/stamp/include -I "$home/include" -I "$home/include/linux" \
    -o "$classes/tickscope/$arch/libtickscope.so" java/native/counter.c
"$home/bin/jar" --create --file build/java/tickscope.jar -C "$classes" .
mv build/java/tickscope.jar build/tickscope.jar
