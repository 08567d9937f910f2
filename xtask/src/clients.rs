//! Real clients, each with its own little suite, against a running server.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::run::{Outcome, Steps, capture, exists};
use crate::server::Server;
use crate::setup;

/// What runs a suite. The suite finds the server's port in `SCRUBJAY_PORT`.
type Prepare = fn(&Path, &Path) -> Result<Command, Missing>;

/// Why a suite cannot be run.
enum Missing {
    /// Something that this machine lacks.
    Here(String),
    /// Something that should have worked.
    Broken(String),
}

/// Every suite: its name and how it is started.
const SUITES: &[(&str, Prepare)] = &[
    ("pymemcache", |root, target| {
        python(root, target, "pymemcache_suite.py", &[])
    }),
    ("pylibmc text", |root, target| {
        python(root, target, "pylibmc_suite.py", &["text"])
    }),
    ("pylibmc binary", |root, target| {
        python(root, target, "pylibmc_suite.py", &["binary"])
    }),
    ("python-binary-memcached", |root, target| {
        python(root, target, "bmemcached_suite.py", &[])
    }),
    ("statistics class", |root, target| {
        python(root, target, "statistics_suite.py", &[])
    }),
    ("php-memcached text", |root, _| {
        php(root, "memcached_suite.php", "memcached", "text")
    }),
    ("php-memcached binary", |root, _| {
        php(root, "memcached_suite.php", "memcached", "binary")
    }),
    ("php-memcache", |root, _| {
        php(root, "memcache_suite.php", "memcache", "text")
    }),
    ("memccapable ascii", |_, _| memccapable("-a")),
    ("memccapable binary", |_, _| memccapable("-b")),
    ("placement by real libraries", |root, target| {
        // Those that place keys without talking to servers.
        let libraries = [
            "quick",
            "libmemcached",
            "pymemcache",
            "hash_ring",
            "php-memcached",
            "second implementation",
        ];
        python(root, target, "../placement/placement.py", &libraries)
    }),
    ("gomemcache", |root, target| {
        needs("go")?;
        Ok(Command::new(setup::go(root, target).map_err(Missing::Broken)?))
    }),
    ("memjs and memcache-client", |root, target| {
        needs("node")?;
        needs("npm")?;
        let mut command = Command::new("node");
        command.arg(setup::node(root, target).map_err(Missing::Broken)?);
        Ok(command)
    }),
];

/// Suites of the admin port, which they find in `SCRUBJAY_ADMIN_PORT`.
const ADMIN_SUITES: &[(&str, Prepare)] = &[
    ("metrics by Prometheus' parser", |root, target| {
        python(root, target, "metrics_suite.py", &[])
    }),
    ("dashboard in Chromium", |root, target| {
        needs("chromium")?;
        python(root, target, "dashboard_suite.py", &[])
    }),
];

/// What the server of those is started with.
const ADMIN_OPTIONS: &[&str] = &["-o", "admin=0"];

/// All suites, each with what its server is started with besides.
fn all() -> impl Iterator<Item = (&'static str, Prepare, &'static [&'static str])> {
    let plain = SUITES.iter().map(|(name, prepare)| (*name, *prepare, &[][..]));
    let admin = ADMIN_SUITES.iter();
    plain.chain(admin.map(|(name, prepare)| (*name, *prepare, ADMIN_OPTIONS)))
}

fn needs(program: &str) -> Result<(), Missing> {
    if exists(program) {
        Ok(())
    } else {
        Err(Missing::Here(format!("there is no {program}")))
    }
}

fn python(root: &Path, target: &Path, suite: &str, arguments: &[&str]) -> Result<Command, Missing> {
    needs("python3")?;
    let mut command = Command::new(setup::python(root, target).map_err(Missing::Broken)?);
    command
        .arg("-B")
        .arg(root.join("tests/clients/python").join(suite))
        .args(arguments);
    Ok(command)
}

fn php(root: &Path, suite: &str, extension: &str, protocol: &str) -> Result<Command, Missing> {
    needs("php")?;
    let (_, extensions) = capture(Command::new("php").arg("-m"));
    if !extensions.lines().any(|line| line == extension) {
        return Err(Missing::Here(format!("PHP has no extension {extension}")));
    }
    let mut command = Command::new("php");
    command
        .arg(root.join("tests/clients/php").join(suite))
        .arg(protocol);
    Ok(command)
}

fn memccapable(protocol: &str) -> Result<Command, Missing> {
    needs("memccapable")?;
    let mut command = Command::new("sh");
    // It wants the port as an argument, and says for each test `[pass]` or `[FAIL]`.
    command.args([
        "-c",
        "exec memccapable -h 127.0.0.1 -p $SCRUBJAY_PORT -t 10 \"$0\" 2>&1",
        protocol,
    ]);
    Ok(command)
}

/// Whether any of the suites will run.
pub fn wanted(steps: &Steps<'_>) -> bool {
    all().any(|(name, ..)| steps.wants(&step_name(name)))
}

fn step_name(suite: &str) -> String {
    format!("client: {suite}")
}

/// One step for every suite, each against a server of its own.
pub fn run(steps: &mut Steps<'_>, root: &Path, target: &Path, program: &Result<PathBuf, String>) {
    for (name, prepare, options) in all() {
        steps.step(&step_name(name), || {
            let program = match program {
                Ok(program) => program,
                Err(why) => return Outcome::of(Err(why.clone())),
            };
            match prepare(root, target) {
                Ok(command) => suite(name, command, target, program, options),
                Err(Missing::Here(why)) => Outcome::Skipped(why),
                Err(Missing::Broken(why)) => Outcome::of(Err(why)),
            }
        });
    }
}

fn suite(name: &str, mut command: Command, target: &Path, program: &Path, options: &[&str]) -> Outcome {
    let file = name.replace([' ', '\''], "-");
    let mut server = match Server::start(program, &target.join("clients/servers"), &file, options) {
        Ok(server) => server,
        Err(why) => return Outcome::of(Err(why)),
    };
    command.env("SCRUBJAY_PORT", server.port.to_string());
    if let Some(port) = server.admin_port {
        command.env("SCRUBJAY_ADMIN_PORT", port.to_string());
    }
    let (success, mut output) = capture(&mut command);
    let alive = server.is_alive();
    if !alive || !success {
        output.push_str(&format!(
            "\nthe server {}, and said:\n{}",
            if alive { "runs" } else { "ended" },
            server.log()
        ));
    }
    let passes = output.matches("[pass]").count();
    if passes > 0 {
        let fails = output.matches("[FAIL]").count();
        output.push_str(&format!("\n{passes} passed, {fails} failed\n"));
    }
    Outcome::counted(success && alive, output)
}
