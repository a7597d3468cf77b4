#!/bin/sh
# Builds build/tickscope-opentelemetry.jar against the SDK of its POM, which Maven fetches into build/java/sdk once.
set -eu
cd "$(dirname "$0")/../.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
module=java/opentelemetry classes=build/java/opentelemetry
java/fetch.sh $module/pom.xml build/java/sdk
rm -rf $classes && mkdir -p $classes
"$home/bin/javac" --release 17 -Xlint:all,-processing,-classfile -Werror -cp "build/tickscope.jar:build/java/sdk/*" \
    -d $classes $module/src/tickscope/opentelemetry/*.java
"$home/bin/jar" --create --file build/java/opentelemetry.jar -C $classes . -C $module/src META-INF
mv build/java/opentelemetry.jar build/tickscope-opentelemetry.jar
