#!/bin/sh
# Fetches what a POM depends on into a folder, by Maven, unless it was done for the POM as it is: fetch.sh POM FOLDER.
set -eu
pom=$1 folder=$2
if ! cmp -s "$pom" "$folder/pom.xml"; then
    command -v mvn >/dev/null || { echo "java: expected Maven, found no mvn. Install it" >&2; exit 1; }
    rm -rf "$folder"
    mvn -q -B -f "$pom" -DoutputDirectory="$PWD/$folder" -DexcludeGroupIds=dev.tickscope \
        org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies
    cp "$pom" "$folder/pom.xml"
fi
