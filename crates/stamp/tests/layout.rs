//! The C header and the Rust descriptor are one layout, and know the same policies.

mod c_program;

use std::mem::{offset_of, size_of, size_of_val};

use tickscope_stamp::block::{
    BLOCK_MAGIC, BlockHeader, ChannelEntry, FullRecord, POOL_MAGIC, Policy, PoolHeader, SHARED_ENTRIES,
    SUCCESSOR_MAGIC, SlimRecord, Successor, VERSION, WideRecord, channel_entries,
};

macro_rules! fields {
    ($lines:ident, $name:literal, $type:ty: $($field:ident)*) => {{
        // SAFETY: every field of these structs may be all zero.
        let zeroed: $type = unsafe { std::mem::zeroed() };
        $($lines.push(format!("{} {} {} {}", $name, stringify!($field), offset_of!($type, $field),
            size_of_val(&zeroed.$field)));)*
    }};
}

#[test]
fn c_every_field_has_the_same_offset_and_size_in_c_and_rust() {
    let mut lines = Vec::new();
    fields!(lines, "pool_header", PoolHeader: magic version entry_offset entry_bytes entry_count block_offset block_bytes
        block_count instance boot_id pid counter when_full process_start epoch injected created_tick node command state
        channels key leases hint without_channel channels_refused after_close dumps unwritten
        late_from late_until reading_ps reading);
    fields!(lines, "entry", ChannelEntry: policy parameters state serial number thread ordering shape counter opened_tick dropped refused stalls
        lost lost_first lost_last counted seen point);
    fields!(lines, "block_header", BlockHeader: magic version header_bytes state serial number policy_epoch instance boot_id
        pid thread process_start ordering shape counter epoch lost lost_first lost_last point parameter
        policy successor end following first_of_policy);
    fields!(lines, "successor", Successor: next serial whole opened_tick one);
    fields!(lines, "slim_record", SlimRecord: id tick);
    fields!(lines, "wide_record", WideRecord: id tick value kind cpu);
    fields!(lines, "full_record", FullRecord: wide parent attempt batch);
    let (pool, entry, block) = (size_of::<PoolHeader>(), size_of::<ChannelEntry>(), size_of::<BlockHeader>());
    lines.extend([
        format!("pool_header = {pool} 0"),
        format!("entry = {entry} 0"),
        format!("block_header = {block} 0"),
    ]);
    lines.push(format!("pool_magic = {POOL_MAGIC} 0"));
    lines.extend([format!("block_magic = {BLOCK_MAGIC} 0"), format!("version = {VERSION} 0")]);
    lines.push(format!("successor_magic = {SUCCESSOR_MAGIC} 0"));
    lines.push(format!("entries = {} {SHARED_ENTRIES}", channel_entries(4)));
    lines.extend(Policy::ALL.map(|policy| format!("policy {} {} 0", policy.name(), policy as u32)));

    let printed = c_program::build("offsets", &[]).output().unwrap();
    assert_eq!(String::from_utf8(printed.stdout).unwrap().lines().collect::<Vec<_>>(), lines);
}

#[test]
fn c_the_header_compiles_without_a_warning_as_c99_c11_and_cpp17() {
    for (compiler, flags) in [
        ("cc", ["-std=c99", "-pedantic", "-xc"]),
        ("cc", ["-std=gnu11", "-Wcast-align=strict", "-xc"]),
        ("c++", ["-std=c++17", "-pedantic", "-xc++"]),
    ] {
        if compiler == "c++" && std::process::Command::new("c++").arg("--version").output().is_err() {
            eprintln!("LEFT OUT: C++17, there is no C++ compiler here; tests/run.py says so too");
            continue;
        }
        c_program::compile_with(compiler, "stamper", &flags, &format!("stamper-{}", flags[0]));
        let kernel = c_program::compile_with(compiler, "kernel_alone", &flags, &format!("kernel-{}", flags[0]));
        assert!(std::process::Command::new(kernel).status().unwrap().success());
    }
}
