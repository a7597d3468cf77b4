#!/bin/sh
# Builds build/kafka.jar against Kafka, which Maven fetches into build/kafka/lib once (54 MB).
set -eu
cd "$(dirname "$0")/../.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
classes=build/kafka/classes
java/fetch.sh targets/kafka/pom.xml build/kafka/lib
rm -rf $classes && mkdir -p $classes
"$home/bin/javac" --release 17 -Xlint:all,-processing,-classfile -Werror -cp "build/tickscope.jar:build/kafka/lib/*" \
    -d $classes targets/kafka/src/tickscope/kafka/*.java
"$home/bin/jar" --create --file build/kafka/new.jar -C $classes .
mv build/kafka/new.jar build/kafka.jar
