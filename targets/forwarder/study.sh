#!/bin/sh
# The age study, whole: rates, controls, figures 3 and 4, and the age of location updates, in some 12 minutes on a
# machine that does nothing else. As root, after `make build forwarder`.
#
#     targets/forwarder/study.sh [FOLDER]      default: runs/age-study; REPETITIONS=2 of each point
#
# In FOLDER: rates.txt, controls.txt, and for each sweep its runs, NAME.txt (rows, refusals, claims) and NAME.svg.
# Where a command ends badly (a target missed, a trial refused, a ranking refused) the others are made all the same.
cd "$(dirname "$0")/../.." || exit 1
out=${1:-runs/age-study}
tickscope=${TICKSCOPE:-target/release/tickscope}
if [ ! -x "$tickscope" ] || [ ! -x build/forwarder ]; then
    echo "study: expected $tickscope and build/forwarder. Run \`make build forwarder\`" >&2
    exit 1
fi
# Asked once, rather than by each of its trials.
build/forwarder --rate 1e4 --seconds 0.05 --datapath net_ring >/dev/null || exit 1
mkdir -p "$out" || exit 1
echo "study: rates" >&2
targets/forwarder/rates.py >"$out/rates.txt"
echo "study: controls" >&2
targets/forwarder/controls.py --datapath net_ring --rate 2e6 --seconds 0.3 >"$out/controls.txt"
for name in figure-3 figure-4 location-age; do
    echo "study: $name" >&2
    sed -e "s/^repetitions = .*/repetitions = ${REPETITIONS:-2}/" -e "s#\"../build/#\"$PWD/build/#" \
        "experiments/$name.toml" >"$out/$name.toml"
    "$tickscope" run "$out/$name.toml" --report --out "$out/$name" >"$out/$name-table.txt"
    targets/forwarder/figures.py "$out/$name" --tickscope "$tickscope" --svg "$out/$name.svg" >"$out/$name.txt"
done
echo "study: read $out/*.txt, look at $out/*.svg" >&2
