//! What `run` starts: commands beside the run file, any number of nodes, each when the one before it is ready; and what
//! is told, and left, where a start fails.

mod site;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use site::{Ended, Experiment, Site, c_program, count, few_or_all, free_port, tickscope, truth, udp_echo};
use tickscope_experiment::may_make_namespaces;
use tickscope_store::EventKind;

/// A run file whose server is started by a shell: `script` gets the server's words as "$@".
fn with_server(site: &Site, experiment: &Experiment, script: &str, more: &str) -> Command {
    let text = experiment.text();
    let at = text.find("name = \"server\"").unwrap();
    let says = format!("ready = {}\n", experiment.server_port);
    let text = if more.contains("ready") { text.replace(&says, "") } else { text };
    let shell = format!("{more}\ncommand = [\"sh\", \"-c\", '{script}', \"sh\", ");
    site.run_command(&format!("{}{}", &text[..at], text[at..].replacen("command = [", &shell, 1)))
}

/// Fails unless the command told one thing alone, and left nothing.
#[track_caller]
fn left_nothing(site: &Site, ended: &Ended, code: i32, words: &[&str]) {
    ended.said(code, words);
    assert_eq!(ended.err.matches("tickscope: ").count(), 1, "{ended:?}");
    assert_eq!(ended.out, "");
    assert!(!site.run_directory().exists());
}

#[test]
fn e2e_commands_are_those_beside_the_run_file_and_run_there() {
    let site = Site::new("beside");
    fs::copy(udp_echo(), site.path("echo")).unwrap();
    let experiment = Experiment::new(0.5, 200);
    let text = experiment.text().replace(&udp_echo().display().to_string(), "./echo");
    let table = Ended::of(&mut site.run_command(&text)).json(0);
    assert_eq!(count(&table, "end-to-end"), 100);
    let manifest = site.opened().manifest().clone();
    assert_eq!(manifest.run_file.as_deref(), Some(text.as_str()), "the run keeps what ran");
    assert_eq!(manifest.nodes[0].host, Some(fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().into()));
    assert_eq!(manifest.nodes[0].command[0], "./echo");
}

#[test]
fn e2e_a_command_that_is_not_there_is_told_alone_with_the_folder_that_was_looked_in() {
    let site = Site::new("no-command");
    let text = Experiment::new(1.0, 100).text();
    let echo = udp_echo().display().to_string();
    let here = site.path("gone").display().to_string();
    for (program, said) in
        [("./gone", here.as_str()), ("no-such-program-anywhere", "no directory of PATH has it"), ("./", "no program")]
    {
        let ended = Ended::of(&mut site.run_command(&text.replace(&echo, program)));
        left_nothing(&site, &ended, 2, &["node 'server': cannot start", program, said]);
    }
}

#[test]
fn e2e_a_start_that_fails_halfway_leaves_nothing() {
    let site = Site::new("halfway");
    let broken = site.path("broken");
    fs::write(&broken, "#!/no/such/interpreter\n").unwrap();
    fs::set_permissions(&broken, fs::Permissions::from_mode(0o755)).unwrap();
    let ended = site.run(&Experiment { client: "./broken".into(), ..Experiment::new(1.0, 100) });
    let folder = site.path("").components().as_path().display().to_string();
    let started =
        format!("command of client: cannot start './broken' in {folder}: No such file or directory (os error 2)");
    left_nothing(&site, &ended, 1, &[&started, "Is it built, and the path right from there?"]);

    let experiment = Experiment::new(1.0, 100);
    let [_, address] = experiment.addresses.as_ref().unwrap();
    let taken = UdpSocket::bind((address.as_str(), experiment.probe_port)).unwrap();
    left_nothing(&site, &site.run(&experiment), 1, &["Is another run going on?", "clock.probe_port"]);
    drop(taken);

    let never = "ready = \"on air\"\nready_timeout = 0.3";
    let mut command = with_server(&site, &experiment, "echo so far so good; sleep 60", never);
    left_nothing(&site, &Ended::of(&mut command), 1, &["line that contains 'on air'", "0.3 s", "| so far so good"]);
    for says in ["what is wrong", "on air"] {
        let script = format!("echo {says} >&2; exit 7");
        let mut command = with_server(&site, &experiment, &script, "ready = \"on air\"");
        left_nothing(&site, &Ended::of(&mut command), 1, &["ended with exit status: 7", &format!("| {says}")]);
    }
}

#[test]
fn e2e_a_stranger_on_its_port_does_not_make_a_command_ready() {
    let site = Site::new("stranger");
    let experiment = Experiment::new(1.0, 100);
    let address = &experiment.addresses.as_ref().unwrap()[0];
    let stranger = UdpSocket::bind((address.as_str(), experiment.server_port)).unwrap();
    let ready = format!("ready = {}", experiment.server_port);
    let words =
        ["something that listens on port", "ended with exit status: ", "listened there since before", "ss -lntup"];
    left_nothing(&site, &Ended::of(&mut with_server(&site, &experiment, "exec \"$@\"", &ready)), 1, &words);
    let waits = format!("{ready}\nready_timeout = 0.3");
    let mut command = with_server(&site, &experiment, "exec sleep 60", &waits);
    left_nothing(&site, &Ended::of(&mut command), 1, &["0.3 s", "listened there since before"]);
    drop(stranger);
    assert_eq!(count(&site.run(&experiment).json(0), "end-to-end"), 100);
}

#[test]
fn e2e_a_client_is_started_once_its_server_is_ready() {
    let site = Site::new("ready");
    let experiment = Experiment::new(0.4, 250);
    // Longer than a command gets that says nothing.
    for (ready, script) in [
        (format!("ready = {}", experiment.server_port), "sleep 0.6; exec \"$@\""),
        (format!("ready = {{ port = {} }}", experiment.server_port), "sleep 0.6; exec \"$@\""),
        ("ready = \"is up\"".into(), "sleep 0.6; \"$@\" > /dev/null & sleep 0.9; echo now it is up; wait"),
    ] {
        let table = Ended::of(&mut with_server(&site, &experiment, script, &ready)).json(0);
        assert_eq!(count(&table, "end-to-end"), 100, "{ready}");
        fs::remove_dir_all(site.run_directory()).unwrap();
    }
}

#[test]
fn e2e_a_service_that_tells_of_its_signal_by_an_exit_code_has_ended_well() {
    let site = Site::new("143");
    let script = "trap \"kill \\$!; exit 143\" TERM; \"$@\" > /dev/null & wait";
    let table = Ended::of(&mut with_server(&site, &Experiment::new(0.4, 250), script, "")).json(0);
    assert_eq!((count(&table, "end-to-end"), site.events("target-failed").len()), (100, 0));
}

#[test]
fn e2e_three_and_five_nodes_are_namespaces_on_a_bridge_each_with_its_probe() {
    if let Err(why) = may_make_namespaces() {
        println!("not tried: namespaces need rights: {why}");
        return;
    }
    for nodes in [3, 5] {
        let site = Site::new("bridge");
        let experiment = Experiment { probes_hz: 200, addresses: None, ..Experiment::new(1.0, 100) };
        let mut text = experiment.text().replace("kind = \"loopback\"", "kind = \"namespaces\"");
        for more in 2..nodes {
            let (echo, port) = (udp_echo().display(), experiment.server_port);
            text += &format!(
                "[[node]]\nname = \"more{more}\"\ncommand = [\"{echo}\", \"server\", \"{{address}}\", \"{port}\"]\n"
            );
        }
        let table = Ended::of(&mut site.run_command(&text)).json(0);
        assert_eq!(count(&table, "end-to-end"), 100);
        let (known, inside) = truth(&table);
        assert!(known > 0 && known == inside, "{inside} of {known}");
        let run = site.opened();
        let across = run.pairs().unwrap().found.into_iter();
        let across: Vec<_> = across.filter(|pair| pair.reference.node != pair.domain.node).collect();
        assert_eq!(
            across.len(),
            nodes * (nodes - 1) / 2,
            "every two nodes, whether the reference is one of them or not"
        );
        for pair in across {
            assert_ne!(pair.domain.node.as_str(), "client", "the reference asks");
            assert!(run.brackets(&pair).unwrap().found.len() > 200, "{pair:?}");
        }
        let statement = &run.manifest().assumptions[0].statement;
        assert_eq!(statement, "the nodes are network namespaces joined by a bridge");
        let left = Command::new("ip").args(["netns", "list"]).output().unwrap();
        let ours = format!("tickscope-{:06x}-", run.manifest().run & 0xff_ffff);
        assert!(!String::from_utf8_lossy(&left.stdout).contains(&ours), "{left:?}");
    }
}

#[test]
fn e2e_a_command_alone_is_a_run_without_a_file_and_its_output_passes_through() {
    let site = Site::new("alone");
    let (echo, port) = (udp_echo().display().to_string(), free_port().to_string());
    let script = "\"$1\" server 127.0.0.1 \"$2\" > /dev/null & sleep 0.3\n\
                  \"$1\" client 127.0.0.1 \"$2\" --rate 250 --seconds 0.4 > /dev/null; echo '{passed} through'; cat";
    let mut command = tickscope(&["run", "--out"]);
    command.arg(site.run_directory()).args(["--", "sh", "-c", script, "sh", &echo, &port]);
    fs::write(site.path("input"), "and its input").unwrap();
    let input = fs::File::open(site.path("input")).unwrap();
    let ended = Ended::from(command.stdin(Stdio::from(input)).output().unwrap());
    assert!(ended.out.contains("{passed} through\nand its input"), "{ended:?}");
    let run = site.opened();
    assert_eq!(run.stamps(&"sh.send".parse().unwrap()).unwrap().len(), 100, "{ended:?}");
    let manifest = run.manifest();
    assert!(manifest.run_file.is_none() && manifest.layout.path.is_empty() && manifest.ended_unix_ms.is_some());
    assert_eq!((manifest.nodes.len(), manifest.reference.node.as_str()), (1, "sh"));
}

#[test]
fn e2e_policies_of_the_environment_hold_for_a_command_alone_and_are_told_to_be_unused_beside_a_run_file() {
    let site = Site::new("environment");
    let seen = site.path("seen").display().to_string();
    let run = |policy: &str| {
        let mut command = tickscope(&["run", "--json", "--out"]);
        command.arg(site.run_directory()).env("TICKSCOPE_POLICY", policy);
        Ended::of(command.args(["--", "sh", "-c", "echo \"$TICKSCOPE_POLICY\" > \"$1\"", "sh", &seen]))
    };
    left_nothing(&site, &run("se*=every 3, *=sometimes"), 2, &["TICKSCOPE_POLICY", "'sometimes'", "every N"]);
    run("se*=every 3, *=null");
    assert_eq!(fs::read_to_string(&seen).unwrap(), "se*=every 3,*=null\n");
    let rules = site.opened().manifest().policies.clone();
    assert_eq!(rules.iter().map(|rule| rule.policy.as_str()).collect::<Vec<_>>(), ["every 3", "null"]);

    let site = Site::new("environment-file");
    let text = Experiment::new(0.5, 200).text();
    let ended = Ended::of(site.run_command(&text).env("TICKSCOPE_POLICY", "*=null"));
    assert_eq!(count(&ended.json(0), "end-to-end"), 100);
    assert!(ended.err.contains("TICKSCOPE_POLICY of the environment is not used"), "{ended:?}");
    let site = Site::new("environment-node");
    let of_node = text.replacen("name = \"server\"", "name = \"server\"\nenvironment.TICKSCOPE_POLICY = \"*=null\"", 1);
    left_nothing(&site, &Ended::of(&mut site.run_command(&of_node)), 2, &["TICKSCOPE_POLICY", "[[policy]]"]);
    let mut wrong = site.run_command(&text);
    let ended = Ended::of(wrong.env("TICKSCOPE_WHEN_FULL", "never"));
    left_nothing(&site, &ended, 2, &["node 'server'", "TICKSCOPE_WHEN_FULL", "'never'"]);
}

#[test]
fn e2e_a_run_file_to_start_from_is_written_once_and_checked_without_a_run() {
    let site = Site::new("init");
    let (file, out) = (site.path("made.toml"), site.run_directory());
    let init = |more: &[&str]| Ended::of(tickscope(&["init"]).arg(&file).args(more));
    assert_eq!(init(&[]).code, Some(0));
    init(&["--", "true"]).said(2, &["expected no file", "--force"]);
    let check = || Ended::of(tickscope(&["run", "--check", "--out"]).arg(&out).arg(&file));
    check().said(2, &["node 'server': cannot start './server'"]);
    assert_eq!(init(&["--force", "--", ""]).code, Some(0));
    check().said(2, &["node 'node': expected a program as the first word of command, found ''. Give its name"]);
    assert_eq!(init(&["--force", "--", "sh", "-c", "echo \"two words\""]).code, Some(0));
    let checked = check();
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    for words in [
        "network: loopback",
        "sh at 127.0.0.1; the run ends with it: sh -c 'echo \"two words\"'",
        "none: the nodes read one counter",
    ] {
        assert!(checked.out.contains(words), "{checked:?}");
    }
    // Of a machine that nobody asked nothing is asserted.
    let elsewhere = |network: &str, more: &str| {
        let node = |name: &str| {
            let connect = format!("connect = [\"ssh\", \"{name}.invalid\"]");
            format!("[[node]]\nname = \"{name}\"\n{connect}\ncommand = [\"./x\"]\nends_run = true\n")
        };
        let run = format!("run = {{ name = \"a\", seconds = 1 }}\nclock.reference = \"a\"\n{network}");
        fs::write(site.path("elsewhere.toml"), format!("{run}{}{more}{}", node("a"), node("b"))).unwrap();
        Ended::of(tickscope(&["run", "--check", "--out"]).arg(&out).arg(site.path("elsewhere.toml")))
    };
    let told = elsewhere("", "").out;
    assert!(told.contains("network: the network of their machines") && !told.contains("one counter"), "{told}");
    assert!(told.contains("their machines are not asked"), "{told}");
    elsewhere("network.kind = \"namespaces\"\n", "").said(2, &["connect of 'a'", "Leave network.kind out"]);
    elsewhere("", "files = [\"nothere\"]\n").said(2, &["node 'a': cannot read", "nothere", "Correct files"]);
    assert!(!out.exists());
    let mut piped = tickscope(&["run", "-", "--check"]);
    piped.stdin(Stdio::from(fs::File::open(&file).unwrap()));
    assert_eq!(piped.output().unwrap().status.code(), Some(0));
}

#[test]
fn e2e_what_cannot_be_a_run_file_or_a_runs_directory_is_refused_at_once() {
    let site = Site::new("refused");
    let pipe = site.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    Ended::of(tickscope(&["run"]).arg(&pipe)).said(2, &["it is a pipe"]);
    Ended::of(&mut tickscope(&["run", "/dev/zero"])).said(2, &["it is a device"]);
    fs::create_dir_all(site.run_directory()).unwrap();
    fs::write(site.run_directory().join("thesis.txt"), "").unwrap();
    site.run(&Experiment::new(1.0, 100)).said(2, &["expected no such directory or an empty one", "--out"]);
    assert_eq!(fs::read_dir(site.run_directory()).unwrap().count(), 1);
    for wrong in ["-1", "0", "3x"] {
        Ended::of(&mut tickscope(&["run", "x.toml", "--seconds", wrong])).said(2, &["from 0.1 to 1000000"]);
    }
}

/// As a web server does: its worker is another user by the time that it stamps.
#[test]
fn e2e_c_a_service_whose_worker_gives_up_root_stamps_on_and_all_of_it_is_in_the_table() {
    const IDS: u64 = 200;
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("LEFT OUT: only root has rights to give up");
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/worker.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "worker");
    for user in ["33", "65534"] {
        let site = Site::new("worker");
        let text = format!(
            "run = {{ name = \"worker\", seconds = 1 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"app\"\n\
             [[node]]\nname = \"app\"\nends_run = true\ncommand = [\"{}\", \"{user}\", \"{IDS}\"]\n\
             [layout]\npath = [\"app.accepted\", \"app.worked\"]\n",
            program.display()
        );
        let table = Ended::of(&mut site.run_command(&text)).json(0);
        assert_eq!(count(&table, "end-to-end"), IDS, "{user}: {table:#}");
        let run = site.opened();
        let told: Vec<_> = run.events().unwrap().found.into_iter().filter(|event| event.node == "app").collect();
        // A worker that is forked makes its pool at its first stamp, which is an event.
        assert!(told.iter().all(|event| event.what == EventKind::PoolLate), "{user}: {told:?}");
        let channels = run.channels().unwrap().found;
        assert!(channels.iter().all(|channel| channel.dropped + channel.refused + channel.uncommitted == 0));
        let worked = channels.iter().filter(|channel| channel.point.as_str() == "worked").map(|channel| channel.stored);
        assert_eq!(worked.sum::<i64>(), IDS as i64, "{user}: those before and after it gave up root");
    }
}

/// Of traces that go through a program that waited for its pool, the stages that it takes part in are named alone.
#[test]
fn e2e_c_a_pool_that_a_child_waits_for_is_in_no_stage_of_its_parent() {
    let site = Site::new("late-child");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c/late_child.c");
    let program = c_program::compile("cc", &source, &["-D_GNU_SOURCE"], "late_child");
    let text = format!(
        "run = {{ name = \"late\", seconds = 1 }}\nnetwork.kind = \"loopback\"\nclock.reference = \"app\"\n\
         [[node]]\nname = \"app\"\nends_run = true\ncommand = [\"{}\"]\n\
         [layout]\npath = [\"app.in\", \"app.mid\", \"app.out\"]\n",
        program.display()
    );
    let table = Ended::of(&mut site.run_command(&text)).json(0);
    let late = table["late_pools"].as_array().unwrap();
    let stages: Vec<_> = late.iter().map(|stage| stage["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["app.mid>app.out", "end-to-end"], "{late:?}");
    assert!(late[0]["traces"].as_array().unwrap().iter().any(|trace| trace["id"] == 0), "it waited with the first one");
}

/// Everything in a folder and below it.
fn all_below(folder: &Path) -> Vec<PathBuf> {
    let below = |path: PathBuf| {
        let more = if path.is_dir() { all_below(&path) } else { Vec::new() };
        more.into_iter().chain([path])
    };
    fs::read_dir(folder).unwrap().flat_map(|entry| below(entry.unwrap().path())).collect()
}

#[test]
fn e2e_nobody_else_may_write_to_a_run_under_any_umask_and_whoever_may_read_it_can_show_it() {
    let site = Site::new("umask");
    let mut command = site.run_command(&Experiment::new(1.0, 200).text());
    let unmask = || {
        // SAFETY: a system call without memory, which may be called between fork and exec.
        let _ = unsafe { libc::umask(0) };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { command.pre_exec(unmask) };
    Ended::of(&mut command).json(0);
    let run = site.run_directory();
    let [packed, unpacked, drawn] = ["packed", "unpacked", "drawn"].map(|name| site.path(name));
    for (name, from, to) in [("pack", &run, &packed), ("unpack", &packed, &unpacked), ("figures", &run, &drawn)] {
        let mut command = tickscope(&[name]);
        command.arg(from).arg("--out").arg(to);
        // SAFETY: as above.
        unsafe { command.pre_exec(unmask) };
        Ended::of(&mut command).said(0, &[]);
    }
    let may_be_written = |path: &PathBuf| fs::symlink_metadata(path).unwrap().permissions().mode() & 0o022 != 0;
    let below = [&run, &unpacked, &drawn].into_iter().flat_map(|folder| all_below(folder));
    let all = below.chain([&run, &packed, &unpacked, &drawn].map(PathBuf::clone));
    let writable: Vec<_> = all.filter(may_be_written).collect();
    assert!(writable.is_empty() && drawn.join("causes.svg").exists(), "others may write {writable:?}");
    // SAFETY: geteuid has no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("LEFT OUT: only root can be another user");
    }
    let mine = site.path("of nobody");
    fs::create_dir(&mine).unwrap();
    fs::set_permissions(&mine, fs::Permissions::from_mode(0o777)).unwrap();
    let by_nobody = |words: &[&str]| {
        let mut command = tickscope(words);
        command.arg(&run).uid(65534).gid(65534).current_dir(&mine).env("HOME", &mine).env("TMPDIR", &mine);
        Ended::of(&mut command)
    };
    by_nobody(&["show", "--json"]).json(0);
    assert_eq!(by_nobody(&["check", "--json"]).json(0)["state"], "ended");
    by_nobody(&["report", "--out", "mine.html"]).said(0, &[]);
    assert!(mine.join("mine.html").exists());
    by_nobody(&["status"]).said(1, &["it has ended"]);
}

#[test]
fn e2e_ctrl_c_while_a_command_is_not_ready_ends_the_run_in_order() {
    let site = Site::new("not-ready");
    let begun = site.path("begun");
    let script = format!("echo begun >> {}; exec sleep 1000", begun.display());
    let more = "ready = \"never printed\"\nready_timeout = 60.0";
    let mut command = with_server(&site, &Experiment::new(1.0, 100), &script, more);
    let mut run = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while !begun.exists() {
        assert!(run.try_wait().unwrap().is_none(), "it ended before its command began");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // SAFETY: the command that this test started, and did not wait for yet.
    assert_eq!(unsafe { libc::kill(run.id() as i32, libc::SIGINT) }, 0);
    let ended = Ended::from(run.wait_with_output().unwrap());
    assert!(!ended.err.contains("expected a line"), "it was waited for to be ready: {ended:?}");
    assert!(site.opened().manifest().ended_unix_ms.is_some(), "{ended:?}");
}

#[test]
fn e2e_two_runs_that_are_begun_in_one_directory_are_one_run_and_a_refusal() {
    for round in 0..few_or_all(4, 40) {
        let site = Site::new(&format!("two-{round}"));
        let begin = || {
            let mut command = tickscope(&["run", "--out"]);
            command.arg(site.run_directory()).args(["--", "sleep", "0.2"]);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let ended = [begin(), begin()].map(|run| Ended::from(run.wait_with_output().unwrap()));
        let refused: Vec<&Ended> = ended.iter().filter(|ended| ended.code == Some(2)).collect();
        assert_eq!(refused.len(), 1, "{ended:?}");
        assert!(refused[0].err.contains("--out"), "{ended:?}");
        assert!(site.opened().manifest().ended_unix_ms.is_some(), "the other's run is whole: {ended:?}");
        assert_eq!(site.opened().check().unwrap(), [], "{ended:?}");
    }
}
