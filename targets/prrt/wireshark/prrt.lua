-- A dissector of PRRT's packets for Wireshark and tshark: the layout is that of targets/prrt/src/packet.rs.
--
--   tshark -X lua_script:targets/prrt/wireshark/prrt.lua -r CAPTURE -d udp.port==PORT,prrt -V
--
-- Without -d it knows its packets by their first two bytes and their length. What is no packet is told with the reason
-- that the receiver would count. A capture that was cut short shows what is there of a packet.

local HEADER_BYTES, FEEDBACK_BYTES, BITMAP_BYTES, LENGTH_BYTES = 44, 96, 32, 2
local BLOCK_BYTES, MOST_BLOCKS, MOST_DATAGRAM_BYTES = 12 + BITMAP_BYTES, 8, 1472
local MOST_LEFT_US = 60000000
local MOST_ID, MOST_SEQUENCE = UInt64(0, 0x200000), UInt64(0, 0x10000000)
local SOURCE, PARITY, FEEDBACK = 0, 1, 2
local KINDS = { [SOURCE] = "source", [PARITY] = "parity", [FEEDBACK] = "feedback" }

local prrt = Proto("prrt", "Predictably Reliable Real-time Transport")
local fields = {
    version = ProtoField.uint8("prrt.version", "Version", base.DEC, nil, 0xf0),
    kind = ProtoField.uint8("prrt.kind", "Kind", base.DEC, KINDS, 0x0f),
    index = ProtoField.uint8("prrt.index", "Index"),
    k = ProtoField.uint8("prrt.k", "Source packets of a full block (k)"),
    n = ProtoField.uint8("prrt.n", "Packets of a block (n)"),
    filled = ProtoField.uint8("prrt.filled", "Source packets that this block has (0: not known yet)"),
    length = ProtoField.uint16("prrt.length", "Length"),
    session = ProtoField.uint32("prrt.session", "Session", base.HEX),
    left = ProtoField.uint32("prrt.left", "Left until the deadline, us"),
    base = ProtoField.uint64("prrt.base", "Id of the block's first source packet"),
    id = ProtoField.uint64("prrt.id", "Id"),
    sequence = ProtoField.uint64("prrt.sequence", "Sequence"),
    sent = ProtoField.int64("prrt.sent", "Sent, ns of the sender's clock"),
    rtt = ProtoField.uint32("prrt.rtt", "Round trip, us (0: not known)"),
    payload = ProtoField.bytes("prrt.payload", "Payload"),
    echo = ProtoField.uint64("prrt.echo", "Sequence of the packet that is echoed"),
    echo_sent = ProtoField.int64("prrt.echo_sent", "Sent, ns of the sender's clock, as it says"),
    held = ProtoField.uint64("prrt.held", "Held by the receiver, ns"),
    received = ProtoField.uint64("prrt.received", "Received"),
    gaps = ProtoField.uint64("prrt.gaps", "Runs of received packets"),
    lost = ProtoField.uint64("prrt.lost", "Lost"),
    bursts = ProtoField.uint64("prrt.bursts", "Runs of lost packets"),
    squares = ProtoField.uint64("prrt.squares", "Losses of each 64 packets, squared and summed"),
    payloads = ProtoField.uint64("prrt.payloads", "Payloads of blocks that are over"),
    missing = ProtoField.uint64("prrt.missing", "Those of them that are missing"),
    first = ProtoField.uint64("prrt.first", "First packet that the receiver remembers"),
    blocks = ProtoField.uint64("prrt.blocks", "Blocks that more is wanted of"),
    block = ProtoField.uint64("prrt.block", "Block"),
    round = ProtoField.uint8("prrt.round", "Round"),
    needs = ProtoField.uint8("prrt.needs", "Packets that it lacks"),
    has = ProtoField.string("prrt.has", "Packets that are there"),
}
for _, field in pairs(fields) do
    prrt.fields[#prrt.fields + 1] = field
end
local refused = ProtoExpert.new("prrt.refused", "Refused", expert.group.MALFORMED, expert.severity.ERROR)
prrt.experts = { refused }

--- The indices whose bits are set, as "0-3 5".
local function indices(bitmap)
    local runs, first = {}, nil
    for index = 0, BITMAP_BYTES * 8 do
        local byte = index < BITMAP_BYTES * 8 and bitmap:get_index(math.floor(index / 8)) or 0
        local is_there = math.floor(byte / 2 ^ (index % 8)) % 2 == 1
        if is_there and not first then
            first = index
        elseif first and not is_there then
            runs[#runs + 1] = first == index - 1 and tostring(first) or first .. "-" .. index - 1
            first = nil
        end
    end
    return table.concat(runs, " ")
end

--- Why the receiver would refuse a source or parity packet; nil: it takes it.
local function contradiction(kind, head, length)
    local index, k, n, filled = head(2, 1):uint(), head(3, 1):uint(), head(4, 1):uint(), head(5, 1):uint()
    local is_parity = kind == PARITY
    local is_placed
    if is_parity then
        is_placed = index >= k and index < n and filled > 0
    else
        is_placed = index < k and (filled == 0 or index < filled)
    end
    local shortest = is_parity and LENGTH_BYTES or 0
    local longest = MOST_DATAGRAM_BYTES - HEADER_BYTES - (is_parity and 0 or LENGTH_BYTES)
    local is_sound = is_placed and k >= 1 and k <= n and filled <= k
        and head(16, 8):uint64() <= MOST_ID and head(24, 8):uint64() <= MOST_SEQUENCE
        and head(12, 4):uint() <= MOST_LEFT_US and length >= shortest and length <= longest
    return not is_sound and "a header that contradicts itself" or nil
end

local function data(kind, buffer, tree, length)
    local head = buffer(0, HEADER_BYTES)
    for _, place in ipairs({ { "index", 2, 1 }, { "k", 3, 1 }, { "n", 4, 1 }, { "filled", 5, 1 } }) do
        tree:add(fields[place[1]], head(place[2], place[3]))
    end
    tree:add(fields.session, head(8, 4))
    tree:add(fields.left, head(12, 4))
    tree:add(fields.base, head(16, 8))
    if kind == SOURCE then
        tree:add(fields.id, head(16, 8), head(16, 8):uint64() + head(2, 1):uint()):set_generated()
    end
    tree:add(fields.sequence, head(24, 8))
    tree:add(fields.sent, head(32, 8))
    tree:add(fields.rtt, head(40, 4))
    if buffer:len() > HEADER_BYTES then
        tree:add(fields.payload, buffer(HEADER_BYTES))
    end
    return contradiction(kind, head, length)
end

local function feedback(buffer, tree)
    tree:add(fields.session, buffer(8, 4))
    tree:add(fields.sequence, buffer(24, 8))
    if buffer:reported_len() < HEADER_BYTES + FEEDBACK_BYTES then
        return "a feedback shorter than one"
    end
    local places = {
        "echo", "echo_sent", "held", "received", "gaps", "lost", "bursts", "squares", "payloads", "missing",
        "first", "blocks",
    }
    for at, name in ipairs(places) do
        if buffer:len() < HEADER_BYTES + 8 * at then
            return nil
        end
        tree:add(fields[name], buffer(HEADER_BYTES + 8 * (at - 1), 8))
    end
    local count = buffer(HEADER_BYTES + FEEDBACK_BYTES - 8, 8):uint64()
    local rest = buffer:reported_len() - HEADER_BYTES - FEEDBACK_BYTES
    if count > UInt64(MOST_BLOCKS) or rest ~= count:tonumber() * BLOCK_BYTES then
        return "a feedback with another number of blocks than it says"
    end
    local whole = math.floor((buffer:len() - HEADER_BYTES - FEEDBACK_BYTES) / BLOCK_BYTES)
    for number = 0, whole - 1 do
        local block = buffer(HEADER_BYTES + FEEDBACK_BYTES + number * BLOCK_BYTES, BLOCK_BYTES)
        local branch = tree:add(fields.block, block(0, 8))
        branch:add(fields.round, block(8, 1))
        branch:add(fields.needs, block(9, 1))
        branch:add(fields.has, block(12, BITMAP_BYTES), indices(block(12, BITMAP_BYTES):bytes()))
    end
end

--- Adds what is there; answers why the packet is none, or nil.
local function packet(buffer, tree)
    if buffer:reported_len() < HEADER_BYTES then
        return "shorter than a header"
    elseif buffer:len() < HEADER_BYTES then
        return nil
    end
    local kind, length = buffer(1, 1):uint() % 16, buffer(6, 2):uint()
    tree:add(fields.version, buffer(1, 1))
    tree:add(fields.kind, buffer(1, 1))
    tree:add(fields.length, buffer(6, 2))
    if buffer:reported_len() > MOST_DATAGRAM_BYTES then
        return "longer than a datagram may be"
    elseif length ~= buffer:reported_len() - HEADER_BYTES then
        return "another length than it says"
    elseif kind == FEEDBACK then
        return feedback(buffer, tree)
    elseif not KINDS[kind] then
        return "an unknown kind"
    end
    return data(kind, buffer, tree, length)
end

local function is_prrt(buffer)
    return buffer:len() >= 2 and buffer(0, 1):uint() == 0x50 and math.floor(buffer(1, 1):uint() / 16) == 2
end

function prrt.dissector(buffer, info, root)
    if not is_prrt(buffer) then
        return 0
    end
    info.cols.protocol = "PRRT"
    local tree = root:add(prrt, buffer())
    local why = packet(buffer, tree)
    local kind = KINDS[buffer(1, 1):uint() % 16] or "unknown"
    if buffer:len() >= HEADER_BYTES and kind ~= "feedback" then
        local place = "%s %d of (%d, %d), block %s, sequence %s"
        local numbers = { buffer(2, 1):uint(), buffer(4, 1):uint(), buffer(3, 1):uint() }
        kind = place:format(kind, numbers[1], numbers[2], numbers[3], tostring(buffer(16, 8):uint64()),
            tostring(buffer(24, 8):uint64()))
    end
    if buffer:len() < buffer:reported_len() then
        kind = kind .. ", cut short by the capture"
    end
    info.cols.info = why and kind .. ": refused, " .. why or kind
    if why then
        tree:add_proto_expert_info(refused, why)
    end
    return buffer:len()
end

local function by_its_bytes(buffer, info, root)
    if not is_prrt(buffer) or buffer:len() < HEADER_BYTES or buffer(6, 2):uint() ~= buffer:reported_len() - HEADER_BYTES then
        return false
    end
    prrt.dissector(buffer, info, root)
    return true
end

prrt:register_heuristic("udp", by_its_bytes)
DissectorTable.get("udp.port"):add_for_decode_as(prrt)
