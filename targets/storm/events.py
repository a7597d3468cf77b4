"""Writes the events of the Yahoo streaming benchmark and its ads: events.py FOLDER.

`FOLDER/lines.jsonl` has 10 000 events, one a millisecond, with room for an id of 19 digits at byte 8; `FOLDER/ads.tsv`
the 1000 ads of 100 campaigns. The same seed gives the same files.
"""

import json
import random
import sys
import uuid
from pathlib import Path

EVENTS = 10_000
CAMPAIGNS, ADS_OF_ONE = 100, 10
USERS = PAGES = 100
TYPES = ["view", "click", "purchase"]
AD_TYPES = ["banner", "modal", "sponsored-search", "mail", "mobile"]
BEGIN_MS = 1_767_225_605_000  # in the middle of a window, so that there are two
SEED = 42


def write(folder: Path) -> None:
    draw = random.Random(SEED)

    def name() -> str:
        return str(uuid.UUID(int=draw.getrandbits(128), version=4))

    campaigns = [name() for _ in range(CAMPAIGNS)]
    ads = [(name(), campaign) for campaign in campaigns for _ in range(ADS_OF_ONE)]
    users, pages = [name() for _ in range(USERS)], [name() for _ in range(PAGES)]
    with (folder / "ads.tsv").open("w") as file:
        file.writelines(f"{ad}\t{campaign}\n" for ad, campaign in ads)
    with (folder / "lines.jsonl").open("w") as file:
        for at in range(EVENTS):
            event = {
                "id": "0" * 19,
                "user_id": draw.choice(users),
                "page_id": draw.choice(pages),
                "ad_id": draw.choice(ads)[0],
                "ad_type": draw.choice(AD_TYPES),
                "event_type": draw.choice(TYPES),
                "event_time": str(BEGIN_MS + at),
                "ip_address": "1.2.3.4",
            }
            file.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
