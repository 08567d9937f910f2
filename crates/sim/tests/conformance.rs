//! The scripts of `tests/conformance`: against Debian's memcached, and over loopback against scrubjay.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use scrubjay_sim::in_process::{Cuts, InProcess};
use scrubjay_sim::runner::{self, Deviations, Remote};
use scrubjay_sim::script::Script;
use scrubjay_sim::server::Server;
use scrubjay_sim::serving::{START, Serving};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/conformance")
}

fn scripts() -> Vec<Script> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "script"))
        .collect();
    files.sort();
    assert!(files.len() >= 45, "scripts are missing");
    let read = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        Script::parse(&name, &std::fs::read_to_string(path).unwrap()).unwrap()
    };
    files.iter().map(read).collect()
}

fn deviations() -> Deviations {
    Deviations::parse(&std::fs::read_to_string(folder().join("deviations.tsv")).unwrap()).unwrap()
}

/// Runs `check` on every script, several at a time, and fails with all that it says.
fn check_all(scripts: &[Script], check: impl Fn(&Script) -> Result<(), String> + Sync) {
    let next = Mutex::new(scripts.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(script) = next.lock().unwrap().next() else {
                        return;
                    };
                    if let Err(why) = check(script) {
                        failures.lock().unwrap().push(why);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

type Start = fn(&[String]) -> Result<Server, String>;

fn check_server(start: Start, script: &Script, deviations: Option<&Deviations>) -> Result<(), String> {
    let start = || start(&script.arguments).map(Remote::new);
    runner::run(script, &mut start()?, deviations)?;
    if script.is_one_stream() {
        runner::run_pipelined(script, &mut start()?, deviations)
            .map_err(|why| format!("all at once: {why}"))?;
    }
    Ok(())
}

#[test]
fn every_deviation_names_a_step() {
    let idle = deviations().idle_rows(&scripts());
    assert!(idle.is_empty(), "deviations.tsv: {}", idle.join(", "));
}

#[test]
fn memcached_answers_as_the_scripts_say() {
    let deviations = deviations();
    let mut scripts = scripts();
    scripts.retain(|script| !deviations.skips(script));
    check_all(&scripts, |script| {
        check_server(Server::start_memcached, script, Some(&deviations))
    });
}

#[test]
fn scrubjay_answers_as_the_scripts_say_over_loopback() {
    check_all(&scripts(), |script| {
        check_server(Server::start_scrubjay, script, None)
    });
}

#[test]
fn scrubjay_answers_as_the_scripts_say_over_tls() {
    check_all(&scripts(), |script| {
        check_server(Server::start_scrubjay_tls, script, None)
    });
}

/// Scripts up to this many bytes are cut in two at every place; of longer ones each place is cut too, but many in a run.
const TWO_PARTS_LEN_MAX: usize = 1500;

/// Bytes between the cuts of one run of a longer script.
const STEP: usize = 89;

fn check_in_process(script: &Script, cuts: Cuts) -> Result<(), String> {
    let serving = Serving::new(&script.arguments)?;
    let shown = format!("{cuts:?}");
    let mut target = InProcess::new(serving.service(), START, cuts);
    runner::run(script, &mut target, None).map_err(|why| format!("{shown}: {why}"))
}

#[test]
fn scrubjay_answers_as_the_scripts_say_however_input_is_cut() {
    check_all(&scripts(), |script| {
        check_in_process(script, Cuts::None)?;
        let len: usize = script.streams().values().map(Vec::len).sum();
        let every = |first, step| check_in_process(script, Cuts::Every { first, step });
        if len > 200_000 {
            // Values of a mebibyte: pieces as they come from sockets, and the first bytes one by one.
            check_in_process(script, Cuts::Before((0..3_000).collect()))?;
            return [997, 4_096, 65_536]
                .into_iter()
                .try_for_each(|step| every(step, step));
        }
        every(1, 1)?;
        if len <= TWO_PARTS_LEN_MAX {
            return (1..len).try_for_each(|cut| check_in_process(script, Cuts::Before(vec![cut])));
        }
        (1..=STEP).try_for_each(|first| every(first, STEP))
    });
}

#[test]
fn scrubjay_answers_in_process_what_is_sent_all_at_once() {
    check_all(&scripts(), |script| {
        if !script.is_one_stream() {
            return Ok(());
        }
        let serving = Serving::new(&script.arguments)?;
        let mut target = InProcess::new(serving.service(), START, Cuts::None);
        runner::run_pipelined(script, &mut target, None)
    });
}

/// With a hand-over at every cut, and wherever else a worker's turn may end.
fn check_handed_over(script: &Script, cuts: Cuts) -> Result<(), String> {
    let serving = Serving::new(&script.arguments)?;
    let shown = format!("handed over, {cuts:?}");
    let mut target = InProcess::new(serving.service(), START, cuts);
    target.hand_over_to(move || serving.service());
    runner::run(script, &mut target, None).map_err(|why| format!("{shown}: {why}"))
}

#[test]
fn scrubjay_answers_as_the_scripts_say_however_often_it_is_handed_over() {
    check_all(&scripts(), |script| {
        let len: usize = script.streams().values().map(Vec::len).sum();
        let every = |first, step| check_handed_over(script, Cuts::Every { first, step });
        if len > 200_000 {
            check_handed_over(script, Cuts::Before((0..3_000).collect()))?;
            return [4_096, 65_536].into_iter().try_for_each(|step| every(step, step));
        }
        every(1, 1)?;
        if len <= TWO_PARTS_LEN_MAX {
            return (1..len).try_for_each(|cut| check_handed_over(script, Cuts::Before(vec![cut])));
        }
        (1..=STEP).step_by(11).try_for_each(|first| every(first, STEP))
    });
}
