/* What travels: 60 bytes, as in the paper, in a slot of 64. */

#define PACKET_BYTES 60
#define CACHE_LINE 64
#define NO_ADDRESS INT64_C(-2)      /* nobody looked one up: there is no FIB */
#define FIRST_ADDRESS INT64_C(-1)   /* where every user is before its first location update */

/* A move is a control packet: its user is elsewhere from now on. Two processes greet each other, and part. */
enum kind { DATA_PACKET, MOVE, GREETING, FAREWELL };

#define GREETING_WORDS "tickscope forwarder" /* in the payload of one: nobody else sends that */

struct packet {
    int64_t id;
    int64_t sent_tick;  /* one of a batch */
    int64_t address_id; /* of the location update that the address is from */
    uint64_t mac;
    int32_t user, kind;
    char payload[20];
    char unused[4];
};
_Static_assert(offsetof(struct packet, unused) == PACKET_BYTES && sizeof(struct packet) == CACHE_LINE, "60 bytes sent");
_Static_assert(sizeof((struct packet *)0)->payload == sizeof GREETING_WORDS, "as many as the payload takes");

static int is_greeting(const struct packet *packet) {
    return packet->kind == GREETING && memcmp(packet->payload, GREETING_WORDS, sizeof packet->payload) == 0;
}

/* The hardware address of a user's point of attachment after that location update. Never zero. */
static uint64_t mac_of(int64_t address_id, int32_t user) {
    return ((uint64_t)address_id + 2) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)user + 1;
}
