//! `man`, `completions`, `config`, `options`, `live-options`, `commands`, `statistics`: texts that are made from the tables.

use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgMatches, Command};
use clap_complete::Shell;
use scrubjay_server::{commands as text_commands, options, stats};

/// The subcommands.
pub fn commands() -> [Command; 7] {
    let shell = Arg::new("shell")
        .required(true)
        .value_parser(clap::value_parser!(Shell));
    [
        Command::new("man").about("Print the manual page, for man(1)"),
        Command::new("completions")
            .about("Print the completions for a shell")
            .arg(shell),
        Command::new("options").about("Print the table of all options, in Markdown"),
        Command::new("live-options").about("Print the table of the options that SIGHUP changes, in Markdown"),
        Command::new("config")
            .about("Print a configuration file with every option and its default, as comments"),
        Command::new("commands").about("Print the table of all text commands, in Markdown"),
        Command::new("statistics").about("Print the tables of all statistics, in Markdown"),
    ]
}

/// Prints the text that the subcommand `name` asks for.
pub fn run(name: &str, matches: &ArgMatches) -> ExitCode {
    let mut text = Vec::new();
    let mut command = crate::args::command();
    match name {
        "completions" => {
            let shell = matches.get_one::<Shell>("shell").expect("clap demands it");
            clap_complete::generate(*shell, &mut command, "scrubjay", &mut text);
        }
        "options" => text = options::markdown().into_bytes(),
        "live-options" => text = options::live_markdown().into_bytes(),
        "config" => text = options::default_file().into_bytes(),
        "commands" => text = text_commands::markdown().into_bytes(),
        "statistics" => text = stats::markdown().into_bytes(),
        _ => manual(command, &mut text).expect("memory takes every byte"),
    }
    print(&text)
}

fn manual(command: Command, text: &mut Vec<u8>) -> std::io::Result<()> {
    // What -h leaves out belongs into the manual all the same.
    let manual = clap_mangen::Man::new(command.mut_args(|arg| arg.hide_short_help(false)));
    manual.render_title(text)?;
    manual.render_name_section(text)?;
    // With every option named, as the generator would have it, the synopsis fills a page.
    let synopsis = r"\fBscrubjay\fR [\fIoptions\fR] | \fBscrubjay\fR \fIcommand\fR";
    writeln!(text, ".SH SYNOPSIS\n{synopsis}")?;
    manual.render_description_section(text)?;
    manual.render_options_section(text)?;
    manual.render_subcommands_section(text)?;
    manual.render_extra_section(text)?;
    manual.render_version_section(text)
}

/// Writes `text` to standard output.
pub fn print(text: &[u8]) -> ExitCode {
    match std::io::stdout().write_all(text) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => crate::fail(&format!("cannot write: {error}"), 1),
    }
}
