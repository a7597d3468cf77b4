#!/bin/sh
# Puts build/tickscope.jar with its POM, sources and documentation into build/maven, a repository for Maven and Gradle.
set -eu
cd "$(dirname "$0")/.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
version=$(sed -n 's|^  <version>\(.*\)</version>$|\1|p' java/pom.xml)
rm -rf build/java/docs build/maven
folder=build/maven/dev/tickscope/tickscope/$version
"$home/bin/javadoc" -quiet -Xdoclint:all,-missing -Werror --release 17 -notimestamp -d build/java/docs java/src/tickscope/*.java
mkdir -p "$folder"
name=$folder/tickscope-$version
cp java/pom.xml "$name.pom"
cp build/tickscope.jar "$name.jar"
"$home/bin/jar" --create --file "$name-sources.jar" -C java/src .
"$home/bin/jar" --create --file "$name-javadoc.jar" -C build/java/docs .
for file in "$name"*; do
    sha1sum "$file" | cut -d' ' -f1 > "$file.sha1"
done
