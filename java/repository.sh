#!/bin/sh
# Puts the jars that are in build with their POMs, sources and documentation into build/maven, a repository for Maven
# and Gradle.
set -eu
cd "$(dirname "$0")/.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
version=$(sed -n 's|^  <version>\(.*\)</version>$|\1|p' java/pom.xml)
rm -rf build/java/docs build/maven

# Of an artifact: its POM, its sources, what javadoc needs beside them.
publish() {
    artifact=$1 pom=$2 sources=$3
    shift 3
    docs=build/java/docs/$artifact folder=build/maven/dev/tickscope/$artifact/$version
    find "$sources" -name '*.java' -exec "$home/bin/javadoc" -quiet -Xdoclint:all,-missing -Werror --release 17 \
        -notimestamp -d "$docs" "$@" {} +
    mkdir -p "$folder"
    name=$folder/$artifact-$version
    sed '/<repositories>/,/<\/repositories>/d' "$pom" > "$name.pom"
    cp "build/$artifact.jar" "$name.jar"
    "$home/bin/jar" --create --file "$name-sources.jar" -C "$sources" .
    "$home/bin/jar" --create --file "$name-javadoc.jar" -C "$docs" .
    for file in "$name"*; do
        sha1sum "$file" | cut -d' ' -f1 > "$file.sha1"
    done
}

publish tickscope java/pom.xml java/src
if [ -e build/tickscope-opentelemetry.jar ]; then
    publish tickscope-opentelemetry java/opentelemetry/pom.xml java/opentelemetry/src -cp "build/tickscope.jar:build/java/sdk/*"
fi
