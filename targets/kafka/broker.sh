#!/bin/sh
# broker.sh ADDRESS PORT [FOLDER]: one broker of Kafka (KRaft) on PORT, its controller on PORT + 1, until SIGTERM. What
# it stores is below FOLDER, else where mktemp puts it, and goes with it, unless this is killed. A topic has two
# partitions, and is made for whoever asks for it. One that ends by itself ends this with its status.
set -eu
kafka="$(cd "$(dirname "$0")/../.." && pwd)/build/kafka/lib/*"
data=$(mktemp -d ${3:+-p "$3"})
cat > "$data/server.properties" <<END
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@$1:$(($2 + 1))
listeners=PLAINTEXT://$1:$2,CONTROLLER://$1:$(($2 + 1))
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=$data/logs
offsets.topic.replication.factor=1
num.partitions=2
END
java -Xmx256m -cp "$kafka" kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw -c "$data/server.properties" > /dev/null 2>&1
java -Xmx512m -cp "$kafka" kafka.Kafka "$data/server.properties" 2> /dev/null &
broker=$!
trap 'kill $broker; wait $broker || true; rm -rf "$data"; exit 0' TERM INT
status=0
wait $broker || status=$?
rm -rf "$data"
exit $status
