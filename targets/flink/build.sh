#!/bin/sh
# Builds build/flink.jar against Flink, which Maven fetches into build/flink/lib once (78 MB), with the actors of
# targets/storm, which know no engine; and the events that are sent.
set -eu
cd "$(dirname "$0")/../.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
classes=build/flink/classes actors=targets/storm/src/tickscope/storm
java/fetch.sh targets/flink/pom.xml build/flink/lib
rm -rf $classes && mkdir -p $classes build/storm
"$home/bin/javac" --release 17 -Xlint:all,-processing,-classfile,-try -Werror -cp "build/tickscope.jar:build/flink/lib/*" \
    -d $classes targets/flink/src/tickscope/flink/*.java \
    $actors/Actor.java $actors/Actors.java $actors/Lines.java $actors/Operators.java $actors/Redis.java
"$home/bin/jar" --create --file build/flink/new.jar -C $classes .
python3 targets/storm/events.py build/storm
mv build/flink/new.jar build/flink.jar
