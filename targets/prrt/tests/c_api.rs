//! `prrt.h` from C, plain and under sanitizers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The static library that was built with this test: the newest.
fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_prrt")).parent().expect("a folder").join("deps");
    let named = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libtickscope_prrt") && name.ends_with(".a")
    };
    let files = std::fs::read_dir(&built).unwrap().flatten().map(|entry| entry.path()).filter(named);
    files.max_by_key(|path| path.metadata().and_then(|data| data.modified()).unwrap()).expect("libtickscope_prrt.a")
}

fn run(name: &str, flags: &[&str]) -> (String, String) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let mut compile = Command::new("cc");
    compile.args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-g"]).args(flags);
    compile.arg("-I").arg(folder.join("include")).arg("-o").arg(&program);
    compile.arg(folder.join("tests").join("c").join("prrt.c")).arg(library()).args(["-lpthread", "-ldl", "-lm"]);
    assert!(compile.status().unwrap().success());
    let output = Command::new(program).output().unwrap();
    let [said, told] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{said}{told}");
    (said, told)
}

fn judge((said, told): &(String, String)) {
    let counts: serde_json::Value = serde_json::from_str(said).unwrap();
    let count = |name: &str| counts[name].as_u64().unwrap();
    // In virtual time the same each time: of 4000 payloads some 200 are lost there, and 40 may be missing.
    assert!(count("came") >= 3960 && count("recovered") >= 100 && count("adapted") >= 7, "{said}");
    assert!(told.contains("expected"), "the constraint that cannot be kept is named: {told}");
}

#[test]
fn c_programs_send_and_take_payloads_by_a_deadline_and_misuse_is_refused() {
    judge(&run("prrt-c", &["-O1"]));
}

#[test]
fn c_sanitizers_find_nothing_in_either_end() {
    judge(&run("prrt-c-sanitized", &["-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]));
}
