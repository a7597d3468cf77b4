#!/bin/sh
# Builds build/storm.jar against Storm, which Maven fetches into build/storm/lib once (145 MB), and the events that are sent.
set -eu
cd "$(dirname "$0")/../.."
home=${JAVA_HOME:-$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")}
target=targets/storm classes=build/storm/classes
java/fetch.sh $target/pom.xml build/storm/lib
rm -rf $classes && mkdir -p $classes
"$home/bin/javac" --release 17 -Xlint:all,-processing,-classfile,-try -Werror -cp "build/tickscope.jar:build/storm/lib/*" \
    -d $classes $target/src/tickscope/storm/*.java targets/kafka/src/tickscope/kafka/Topic.java
cp $target/log4j2.xml $classes
"$home/bin/jar" --create --file build/storm/new.jar -C $classes .
python3 $target/events.py build/storm
mv build/storm/new.jar build/storm.jar
# What the processes of a cluster stand on: libraries of a worker, what it has besides them, where it logs to.
home=build/storm/home
rm -rf $home && mkdir -p $home/extlib $home/log4j2
ln -s ../lib $home/lib-worker
ln -s ../../../tickscope.jar $home/extlib/tickscope.jar
cp $target/log4j2.xml $home/log4j2/worker.xml
cp $target/log4j2.xml $home/log4j2/cluster.xml
